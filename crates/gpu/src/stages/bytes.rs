//! `bytes`: a render as bytes. See `shaders/bytes.wgsl`.

use super::project::PIXELS;
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Recorder;
use dapple_scene::Result;

/// One word per pixel: red in the lowest byte, then green, blue and alpha.
pub const BYTES: &str = "image_bytes";

const ROUNDED: Code = Code::new("bytes", "bytes");

/// From `image` to [`BYTES`].
pub static PASS: Pass = Pass {
    shaders: shaders!["bytes"],
    kernels: &[ROUNDED],
    needs: Bits::BYTES,
    tensors: &[Tensor::new(Axis::Pixel, BYTES, 1).when(Bits::BYTES)],
    ..Pass::new("bytes", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&ROUNDED, PIXELS)
}
