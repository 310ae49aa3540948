//! Supervision by known depths. Depths of renders: [`crate::depth`].
//!
//! Supervision (`dapple_reference::depth_loss`) is `sum_k c_k |D / t_k - alpha|` over samples of known depth
//! t_k: the relative error of the expected depth, weighted by alpha. The term has no unit, no divisor depends
//! on the render, and its slopes are bounded. The term does not pull at empty pixels. Disparities (gsplat,
//! 3DGS) have the unit of the scene, and those of expected depths have slopes of 1 / D.

use crate::PosedCamera;
use dapple_scene::{Error, Result};

/// The weight is that of [`LossTerm::Depth`](crate::LossTerm::Depth).
pub type Step = ();

/// Samples are an input of the engine: [`FeatureInput::Depth`](super::FeatureInput::Depth).
pub type State = ();

/// Known depth of a pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DepthSample {
    /// Index of the pixel, `y * width + x`.
    pub pixel: u32,
    /// One over the depth along +z, world units; for a panorama over the distance.
    pub inverse_depth: f32,
    /// Weight of the sample; the weights of a view usually add up to 1.
    pub weight: f32,
}

/// Checks the depth samples of a view: inside the image, in ascending order of pixel, at most one per pixel.
///
/// # Errors
/// Samples in another order or outside the image, or a number that is non-finite or negative.
pub fn check_depths(camera: &PosedCamera, samples: &[DepthSample]) -> Result<()> {
    let ascending = samples.windows(2).all(|pair| pair[0].pixel < pair[1].pixel);
    let inside = samples
        .last()
        .is_none_or(|last| (last.pixel as usize) < camera.pixel_count());
    let sound = |v: f32| v.is_finite() && v >= 0.0;
    let finite = samples
        .iter()
        .all(|s| sound(s.inverse_depth) && sound(s.weight));
    if ascending && inside && finite {
        return Ok(());
    }
    Err(
        Error::input("the depth samples do not fit their view").hint(format!(
            "name each pixel of the {} x {} once, in ascending order, with finite numbers",
            camera.size[0], camera.size[1]
        )),
    )
}
