//! The depth loss, part of the stage `loss`. See `shaders/depth_loss.wgsl`.

use super::shaders;
use crate::depths::Sample;
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

const LOSS: Code = Code::new("depth_loss", "depth_loss");

/// The depth loss: adds to `depth_pixels` and `image_gradient`. One invocation for each sample that `depth_samples` can
/// hold; a step gives the number of samples.
pub static PASS: Pass = Pass {
    shaders: shaders!["depth_loss"],
    kernels: &[LOSS],
    needs: Bits::DEPTH,
    tensors: &[Tensor::new(Axis::Photo, "depth_samples", 0)],
    ..Pass::new("loss", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    let capacity = r.bytes_of("depth_samples")? / size_of::<Sample>() as u64;
    let workgroups = capacity.div_ceil(WORKGROUP.into()) as u32;
    r.run(&LOSS, Size::flat(workgroups))
}
