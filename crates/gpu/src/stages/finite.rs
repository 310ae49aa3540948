//! `finite`: looks for parameters that are not finite, now and then, over the Gaussians that the step before
//! it had, and adds what it finds to that step's report. See `shaders/finite.wgsl`.

use super::project::GAUSSIANS;
use super::shaders;
use crate::passes::{Bits, Code, Pass};

const FINITE: Code = Code::new("finite", "finite");

/// What runs after the report of a step.
pub static PASS: Pass = Pass {
    shaders: shaders!["finite"],
    kernels: &[FINITE],
    borrows: &[("state_read", "state")],
    first: &[Bits::NONE],
    ..Pass::new("finite", |r| r.run(&FINITE, GAUSSIANS))
};
