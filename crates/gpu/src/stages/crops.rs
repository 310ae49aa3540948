//! The loss of a crop, part of the stage `loss`: cuts the crop out, runs the caller's kernels, and adds the gradient.
//! See `shaders/crops.wgsl` and [`dapple_engine::crops`].

use super::{loss, shaders};
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::{Buffers, Context};
use dapple_device::CropRoutine;
use dapple_engine::crops::no_crop_loss;
use dapple_scene::{Error, Result};

/// The name of the loss, a dependency of command lists.
const LOSS: &str = "crop loss";

const RENDER: &str = "crop_render";
const PHOTO: &str = "crop_photo";
const DERIVATIVE: &str = "crop_derivative";

const CUT: Code = Code::new("crops", "cut");
const PASTE: Code = Code::new("crops", "paste");

/// From `photo` and the image that the loss compares to the summand of `image_gradient`.
pub static PASS: Pass = Pass {
    shaders: shaders!["crops"],
    kernels: &[CUT, PASTE],
    needs: Bits::CROPS,
    tensors: &[
        Tensor::new(Axis::Given, RENDER, 0),
        Tensor::new(Axis::Given, PHOTO, 0),
        Tensor::new(Axis::Given, DERIVATIVE, 0),
    ],
    ..Pass::new("loss", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    let kernels = r.context.crop_loss.clone().ok_or_else(no_crop_loss)?;
    let floats = r.bytes_of(RENDER)? / super::WORD;
    let size = Size::flat((floats / 3).div_ceil(WORKGROUP.into()) as u32);
    let image = [("image", loss::compared(r.bits))];
    r.run_with(&CUT, size, &image, &[])?;
    r.routine(LOSS, kernels);
    r.run(&PASTE, size)
}

/// Sets a loss's kernels and buffers, or removes them.
///
/// # Errors
/// Other inputs and outputs than two crops and a derivative, or buffers that are too small.
pub fn set(context: &mut Context, buffers: &mut Buffers, loss: Option<CropRoutine>) -> Result<()> {
    context.crop_loss = None;
    buffers.touch(LOSS);
    let Some(loss) = loss else {
        for name in [RENDER, PHOTO, DERIVATIVE] {
            buffers.remove(name);
        }
        return Ok(());
    };
    let CropRoutine { side, routine } = loss;
    let ([render, photo], [derivative]) = (&*routine.inputs, &*routine.outputs) else {
        return Err(Error::internal(
            "a loss of crops takes two buffers in and fills one",
        ));
    };
    let bytes = 3 * super::WORD * u64::from(side).pow(2);
    if [render, photo, derivative].iter().any(|b| b.size() < bytes) {
        return Err(Error::internal(
            "a loss of crops in buffers too small for them",
        ));
    }
    buffers.set(RENDER, render.clone());
    buffers.set(PHOTO, photo.clone());
    buffers.set(DERIVATIVE, derivative.clone());
    context.crop_loss = Some(routine.recording);
    Ok(())
}
