//! `smoothing`: sets the Gaussians' 3D filters by the views to train on. See `shaders/smoothing.wgsl`.

use super::{WORD, shaders};
use crate::layout::WORKGROUP;
use crate::passes::{Axis, Bits, Code, Kind, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// The tensor that filters are kept in, a word a Gaussian; there where something was anti-aliased. They
/// filter nothing until they are set.
pub const SMOOTHING: &str = "smoothing";

const OF_VIEWS: Code = Code::new("smoothing", "smoothing_of_views");

/// What runs before a step that asks for it.
pub static PASS: Pass = Pass {
    shaders: shaders!["smoothing"],
    kernels: &[OF_VIEWS],
    tensors: &[Tensor::new(Axis::Gaussian, SMOOTHING, 1)
        .kind(Kind::State)
        .when(Bits::ANTIALIAS)],
    ..Pass::new("smoothing", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    // How many there are, the step after it finds out.
    let capacity = (r.bytes_of(SMOOTHING)? / WORD) as u32;
    r.run(&OF_VIEWS, Size::flat(capacity.div_ceil(WORKGROUP)))
}
