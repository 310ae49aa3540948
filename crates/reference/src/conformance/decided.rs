//! Pixels in which engines in `f32` cannot decide otherwise than the reference.
//!
//! Whether a Gaussian is skipped or a pixel finished hinges on a threshold. A value that stands within
//! rounding of it falls on one side here and on the other there, and neither is wrong: such pixels are
//! left out of comparisons.

use crate::oracle::{self as reference, Gaussian, Image};
use dapple_engine::{RenderSettings, Rendered};
use dapple_scene::Camera;

/// At most this part of the pixels may be left out.
const UNDECIDED: f64 = 0.01;

/// For each pixel, whether all that is decided in it is farther than `margin` from the threshold, in
/// units of ln alpha.
pub(super) fn decided(
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

/// Gives the pixels that are not decided the colours and alphas of the reference.
pub(super) fn settle(actual: &mut Rendered, expected: &Image, decided: &[bool]) {
    for (pixel, _) in decided.iter().enumerate().filter(|&(_, &sure)| !sure) {
        for channel in 3 * pixel..3 * pixel + 3 {
            actual.rgb[channel] = expected.rgb[channel] as f32;
        }
        actual.alpha[pixel] = expected.alpha[pixel] as f32;
    }
}
