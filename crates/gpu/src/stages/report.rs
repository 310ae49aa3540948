//! `report`: the last dispatch of a step, and of a round of density control: writes what the host
//! will read of it, see [`crate::layout::Report`], into the ring `reports`.

use super::shaders;
use crate::layout::Report;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Size;
use crate::ring::RING;

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

/// Reports a round of density control.
pub static ROUND: Pass = Pass {
    kernels: &[DENSIFY],
    first: &[Bits::NONE],
    ..Pass::new("report", |r| r.run(&DENSIFY, Size::ONE))
};
