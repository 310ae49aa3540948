//! `finite`: looks for non-finite parameters every `FINITE_EVERY` steps, over the Gaussians of the step before, and
//! adds the counts to the report of that step. See `shaders/finite.wgsl`.

use super::project::GAUSSIANS;
use super::shaders;
use crate::passes::{Bits, Code, Pass};

const FINITE: Code = Code::new("finite", "finite");

/// The pass after the report of a step.
pub static PASS: Pass = Pass {
    shaders: shaders!["finite"],
    kernels: &[FINITE],
    borrows: &[("state_read", "state")],
    first: &[Bits::NONE],
    ..Pass::new("finite", |r| r.run(&FINITE, GAUSSIANS))
};
