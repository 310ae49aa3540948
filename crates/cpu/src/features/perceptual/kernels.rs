//! Loss over crops, part of the stage `loss`: see [`dapple_engine::crops`].
//!
//! 1. Cut the crop out of the render and out of the photo over the background. In masked pixels, both crops have the
//!    photo's colour.
//! 2. Compute the loss's derivative by the render's crop.
//! 3. Add the derivative times the weight to `image_gradient`, which the loss of the image has filled, except in
//!    masked pixels.

use crate::frame::{CameraF32, Frame, tiled};
use crate::simd::ROW;
use dapple_engine::CropLoss;
use dapple_engine::score::{mask_counts, over};
use dapple_scene::{Photo, Result};

/// Buffers of one crop, and its derivative.
#[derive(Debug, Default)]
pub struct Crop {
    render: Vec<f32>,
    photo: Vec<f32>,
    derivative: Vec<f32>,
}

/// Place, background and weight of a crop.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Column and row of the crop's first pixel.
    pub origin: [u32; 2],
    /// Background of transparent photos.
    pub background: [f32; 3],
    /// Weight of the term.
    pub weight: f32,
}

/// Computes steps 1 to 3.
///
/// # Errors
/// An error of the loss.
pub fn run(
    camera: &CameraF32,
    photo: &Photo,
    cut: Cut,
    loss: &mut dyn CropLoss,
    crop: &mut Crop,
    frame: &mut Frame,
) -> Result<()> {
    let side = loss.side() as usize;
    let [left, top] = cut.origin.map(|v| v as usize);
    let width = photo.width as usize;
    let pixels = || (0..side * side).map(|i| (left + i % side, top + i / side));
    let counts = |pixel: usize| {
        let mask = photo.mask.as_ref();
        mask.is_none_or(|mask| mask_counts(mask[pixel]))
    };
    crop.render.clear();
    crop.photo.clear();
    for (x, y) in pixels() {
        let pixel = y * width + x;
        let (row, lane) = tiled(camera, x, y);
        let alpha = photo.alpha.as_ref().map_or(255, |alpha| alpha[pixel]);
        let alpha = f32::from(alpha) * (1.0 / 255.0);
        let is_shown = counts(pixel);
        for c in 0..3 {
            let colour = f32::from(photo.rgb[pixel * 3 + c]) * (1.0 / 255.0);
            let target = over(colour, alpha, cut.background[c]);
            crop.photo.push(target);
            crop.render.push(match is_shown {
                true => frame.image[row + c * ROW].0[lane],
                false => target,
            });
        }
    }
    crop.derivative.resize(3 * side * side, 0.0);
    loss.differentiate(&crop.render, &crop.photo, &mut crop.derivative)?;
    let derivative = crop.derivative.as_chunks::<3>().0;
    for ((x, y), slope) in pixels().zip(derivative) {
        if counts(y * width + x) {
            let (row, lane) = tiled(camera, x, y);
            for (c, slope) in slope.iter().enumerate() {
                frame.image_gradient[row + c * ROW].0[lane] += cut.weight * slope;
            }
        }
    }
    Ok(())
}
