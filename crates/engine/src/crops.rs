//! A loss over crops that engines do not know, such as LPIPS: the term [`LossTerm::Perceptual`].
//!
//! 1. Who trains makes a [`CropLoss`] for an engine's device and hands it over ([`Engine::set_crop_loss`]).
//! 2. A step in which the term has a weight cuts one crop, [`origin`] tells where, out of what the loss compares: the
//!    render (through the view's appearance, where that is learnt) and the photo over the background. Of pixels that the
//!    photo's mask hides, both have the photo's colour.
//! 3. The crop loss gives its derivative by the render's crop. Times the weight it is added to that of the image, but
//!    for masked pixels.
//!
//! On the processor the engine calls [`CropLoss::differentiate`]. On a device it plays [`CropLoss::routine`] amid its own
//! kernels, so that no step waits.
//!
//! [`LossTerm::Perceptual`]: crate::LossTerm::Perceptual
//! [`Engine::set_crop_loss`]: crate::Engine::set_crop_loss

use crate::relocation::high_product;
use dapple_scene::{Error, Result};
use std::any::Any;
use std::fmt::Debug;

/// How far apart a crop of a render and that of its photo are.
pub trait CropLoss: Send + Debug {
    /// Pixels along an edge of a crop.
    fn side(&self) -> u32;

    /// The derivative by `render`. All are `[side, side, 3]`; colours are 0..1 but for renders, which are not clamped.
    ///
    /// # Errors
    /// A loss that is made for a device.
    fn differentiate(
        &mut self,
        render: &[f32],
        photo: &[f32],
        derivative: &mut [f32],
    ) -> Result<()>;

    /// What an engine on a device plays: the runtime's `Routine` from two inputs, the crops of render and photo, to one
    /// output, the derivative; all `[side, side, 3]` of `f32`. `None` on the processor.
    fn routine(&self) -> Option<Box<dyn Any>> {
        None
    }
}

/// Where a step's crop begins (column, row) in an image of that size; `place` is two fractions of 2^32, uniform.
///
/// # Errors
/// The image is smaller than the crop.
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

/// A step gives the term a weight, and the engine has no loss for it.
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
