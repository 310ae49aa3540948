//! Colours of sparse points whose own were not recorded.
//!
//! Some writers leave every colour at zero (the models that come with the LLFF captures). Gaussians that start
//! black learn slowly from photos: such points get the median of the colours that photos show where they are.

use super::shot::{Shot, seen_colour};
use dapple_scene::{Dataset, Point, Result};
use glam::DVec3;
use rayon::prelude::*;

/// Colours are missing if this part of the points is exactly black, as a fraction. Of eight real captures none has more
/// than 5 %.
const BLACK: (usize, usize) = (1, 2);

/// Colour of a point that no photo shows.
const GREY: [u8; 3] = [128; 3];

/// Returns true if at least [`BLACK`] of the points are black, so that their colours were not recorded.
pub(crate) fn are_lost(points: &[Point]) -> bool {
    let black = points.iter().filter(|point| is_black(point)).count();
    black > 0 && black.saturating_mul(BLACK.1) >= points.len().saturating_mul(BLACK.0)
}

fn is_black(point: &Point) -> bool {
    point.rgb == [0; 3]
}

/// Gives black points the colours that the photos of the views `train` show.
///
/// # Errors
/// A photo that cannot be read.
pub(super) fn restore(dataset: &Dataset, train: &[usize], points: &mut [Point]) -> Result<()> {
    let shots = Shot::read_all(dataset, train)?;
    points
        .par_iter_mut()
        .filter(|point| is_black(point))
        .for_each(|point| {
            let place = DVec3::from(point.position.map(f64::from));
            point.rgb = seen_colour(&shots, place).unwrap_or(GREY);
        });
    Ok(())
}
