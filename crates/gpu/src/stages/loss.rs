//! `loss`: `(1 - w) L1 + w (1 - SSIM)` and its derivative for every pixel.
//!
//! 1. `loss_windows`: the loss by tile, and the derivatives by the filtered sums of SSIM's windows.
//! 2. `loss_gradient`: those derivatives filtered back to pixels, and L1's sign.
//!
//! The data between them, `ssim_maps`, is the stage's only large buffer.

use super::project::PIXELS;
use super::{PIXEL, WORD, shaders};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Recorder;
use dapple_scene::Result;

/// Floats of `ssim_maps` per pixel: three derivatives for each of three channels.
pub const MAPS: u64 = 9;

const WINDOWS: Code = Code::new("loss_windows", "windows");
const GRADIENT: Code = Code::new("loss_gradient", "gradient");

/// The stage: from `image` and `photo` of the step's view to `image_gradient` and `loss_partials`. With
/// [`Bits::CORRECTED`] the corrected image is compared.
pub static PASS: Pass = Pass {
    shaders: shaders!["loss_windows", "loss_gradient"],
    kernels: &[WINDOWS, GRADIENT],
    tensors: &[
        Tensor::new(Axis::Photo, "photo", 0),
        Tensor::new(Axis::Pixel, "image_gradient", 4).unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Pixel, "ssim_maps", MAPS as u32).unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Tile, "loss_partials", 1).and_one(),
    ],
    first: &[Bits::NONE],
    // Image and photo in, once per kernel; gradient out; maps out and in.
    bytes: |load, _| {
        let kernels = 1 + u64::from(load.ssim);
        let maps = u64::from(load.ssim) * 2 * MAPS * WORD;
        load.pixels * (kernels * (PIXEL + WORD) + PIXEL + maps)
    },
    ..Pass::new("loss", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    let image = [("image", compared(r.bits))];
    for kernel in [&WINDOWS, &GRADIENT] {
        r.run_with(kernel, PIXELS, &image, &[])?;
    }
    Ok(())
}

/// Returns the tensor that photos are compared with.
pub fn compared(bits: Bits) -> &'static str {
    match bits.meets(Bits::CORRECTED) {
        true => "corrected",
        false => "image",
    }
}
