//! Losses over crops that are defined outside the engines, such as LPIPS: the term [`LossTerm::Perceptual`].
//!
//! 1. The caller passes a [`CropLoss`] to an engine on the host ([`EngineExt::set_crop_loss`]), or kernels to an engine on
//!    a GPU (`set_crop_routine` of the crate `dapple-device`).
//! 2. A step with a weight for the term cuts one crop, at [`origin`], out of two images: the render (after the view's
//!    appearance, if the run learns it) and the photo over the background. In pixels that the photo's mask hides, both
//!    crops have the photo's colour.
//! 3. The crop loss returns its derivative by the render's crop. The engine multiplies the derivative by the weight and
//!    adds it to that of the image, except in masked pixels.
//!
//! An engine on the host calls [`CropLoss::differentiate`]. An engine on a GPU submits the kernels with its own, so that no
//! step waits.
//!
//! [`LossTerm::Perceptual`]: crate::LossTerm::Perceptual
//! [`EngineExt::set_crop_loss`]: crate::EngineExt::set_crop_loss

use crate::relocation::high_product;
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Numbers of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Place of the crop: fractions of 2^32, see [`origin`].
    pub crop: [u32; 2],
}

/// The loss has no state of views.
pub type State = ();

/// Distance between a crop of a render and the same crop of its photo, on the host.
pub trait CropLoss: Send + Debug {
    /// Returns the edge of a crop, pixels.
    fn side(&self) -> u32;

    /// Returns the derivative by `render`. All arrays are `[side, side, 3]`. Colours of the photo are in 0..1; renders
    /// are not clamped.
    ///
    /// # Errors
    /// The loss cannot be computed.
    fn differentiate(
        &mut self,
        render: &[f32],
        photo: &[f32],
        derivative: &mut [f32],
    ) -> Result<()>;
}

/// Returns the first column and row of a step's crop in an image of size `size`. `place` is two fractions of 2^32,
/// uniform.
///
/// # Errors
/// An image smaller than the crop.
pub fn origin(place: [u32; 2], size: [u32; 2], side: u32) -> Result<[u32; 2]> {
    let [width, height] = size;
    if width.min(height) < side {
        return Err(Error::internal(format!(
            "a crop of {side} x {side} pixels out of an image of {width} x {height}"
        )));
    }
    Ok(std::array::from_fn(|axis| {
        high_product(place[axis], size[axis] - side + 1)
    }))
}

/// Returns the error of a step with a weight for the term on an engine without a crop loss.
pub fn no_crop_loss() -> Error {
    Error::internal("a step compares crops by a loss that the engine was not given")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn crops_lie_in_the_image_and_reach_its_edges() {
        assert_eq!(origin([0, 0], [20, 10], 10).unwrap(), [0, 0]);
        assert_eq!(origin([u32::MAX, u32::MAX], [20, 10], 10).unwrap(), [10, 0]);
        assert_eq!(origin([1 << 31, 0], [20, 10], 9).unwrap(), [6, 0]);
        assert!(origin([0, 0], [20, 10], 11).is_err());
    }
}
