//! Decided pixels: pixels in which an engine in `f32` must decide as the reference does.
//!
//! A threshold determines if a Gaussian is skipped or a pixel finished. A value within rounding of the
//! threshold can be on either side in two engines, and neither is wrong. Such pixels are excluded from
//! comparisons.

use crate as reference;
use crate::{Gaussian, Image};
use dapple_engine::{RenderSettings, Rendered};
use dapple_scene::Camera;

/// Maximum share of excluded pixels.
const UNDECIDED: f64 = 0.01;

/// Returns for each pixel true if all its decisions are farther than `margin` from their thresholds,
/// in units of ln alpha.
pub(crate) fn decided(
    name: &str,
    gaussians: &[Gaussian],
    camera: &Camera,
    settings: &RenderSettings,
    margin: f64,
) -> Vec<bool> {
    let visible = reference::visible(gaussians, camera, settings).unwrap();
    let lists = reference::ranges(&visible, camera, settings.max_gaussians_per_tile);
    let margins = reference::decision_margins(&visible, &lists, camera);
    let decided: Vec<bool> = margins.iter().map(|&each| each > margin).collect();
    let undecided = decided.iter().filter(|&&sure| !sure).count();
    let part = undecided as f64 / decided.len() as f64;
    println!("{name:28} undecided  {part:.1e}");
    assert!(part < UNDECIDED, "{name}: {undecided} pixels are undecided");
    decided
}

/// Sets the undecided pixels to the colours and alphas of the reference.
pub(crate) fn settle(actual: &mut Rendered, expected: &Image, decided: &[bool]) {
    for (pixel, _) in decided.iter().enumerate().filter(|&(_, &sure)| !sure) {
        for channel in 3 * pixel..3 * pixel + 3 {
            actual.rgb[channel] = expected.rgb[channel] as f32;
        }
        actual.alpha[pixel] = expected.alpha[pixel] as f32;
    }
}
