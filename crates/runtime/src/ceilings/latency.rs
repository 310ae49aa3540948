//! Latency of a dispatch and of a submission.
//!
//! 1. `dispatch`: dispatches of one workgroup in one pass, each of which reads the output of the dispatch before, like
//!    the stages of a step.
//! 2. `submission`: a submission of one such dispatch, from the call until the host knows that it is done. Each
//!    submission is waited for.

use super::Measured;
use super::timing::{kernel, rate, run};
use crate::Gpu;
use dapple_base::Result;
use dapple_profile::ceilings::Rated;

/// Number of submissions, of which the median counts.
const SUBMISSIONS: usize = 100;

pub(crate) const LITTLE: &str = "
@group(0) @binding(0) var<storage, read_write> sink: array<u32>;

@compute @workgroup_size(64)
fn little(@builtin(local_invocation_index) t: u32) {
    sink[t] += 1u;
}
";

pub(super) fn measure(gpu: &Gpu, measured: &mut Measured) -> Result<()> {
    let sink = gpu.buffer("sink", 64 * 4)?;
    let kernel = kernel(gpu, "ceilings.little", LITTLE, "little")?;
    let bound = kernel.bind(gpu, &[("sink", &sink)])?;
    let dispatches = rate(gpu, &bound, 1, 1.0)?;
    measured.duration("dispatch", dispatches);
    let submissions = Rated::repeat(1.0, SUBMISSIONS, || {
        Ok(run(gpu, &bound, 1, 1)?.as_secs_f64())
    })?;
    measured.duration("submission", submissions);
    Ok(())
}
