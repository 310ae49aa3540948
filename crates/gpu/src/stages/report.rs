//! `report`: the last dispatch of a step, and of a densification round. Writes the numbers that the
//! host reads later, see [`crate::layout::Report`], into the ring buffer `reports`.

use super::shaders;
use crate::layout::{RING, Report};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Size;

const STEP: Code = Code::new("report", "step_report");
const DENSIFY: Code = Code::new("report", "densify_report");

/// Sums `loss_partials` and reports the step.
pub static PASS: Pass = Pass {
    shaders: shaders!["report"],
    kernels: &[STEP],
    tensors: &[Tensor::new(
        Axis::One,
        "reports",
        (RING as usize * size_of::<Report>() / 4) as u32,
    )],
    first: &[Bits::NONE],
    ..Pass::new("report", |r| r.run(&STEP, Size::ONE))
};

/// Reports a densification round.
pub static ROUND: Pass = Pass {
    kernels: &[DENSIFY],
    first: &[Bits::NONE],
    ..Pass::new("report", |r| r.run(&DENSIFY, Size::ONE))
};
