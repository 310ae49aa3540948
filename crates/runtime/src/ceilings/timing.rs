//! Timing of the ceilings; the module `ceilings` lists the steps.

use crate::kernel::Bound;
use crate::{CommandList, Gpu, Groups, Kernel};
use dapple_base::Result;
use dapple_profile::ceilings::{GOES, Rated};
use std::time::{Duration, Instant};

/// Minimum duration of a submission: starting and waiting take some 0.1 ms.
const LONG_ENOUGH: Duration = Duration::from_millis(30);
/// Maximum dispatches per submission.
const MOST_DISPATCHES: u32 = 16_384;
/// Measures the rate per second of dispatches that each process `amount`.
pub(crate) fn rate(gpu: &Gpu, bound: &Bound, groups: u32, amount: f64) -> Result<Rated> {
    // The first submission also warms up the device.
    let mut dispatches = 1;
    let mut once = run(gpu, bound, groups, dispatches)?;
    loop {
        once = once.min(run(gpu, bound, groups, dispatches)?);
        if once >= LONG_ENOUGH || dispatches >= MOST_DISPATCHES {
            break;
        }
        // Directly to the final count, but not from one short time only, because clocks ramp up.
        let wanted = LONG_ENOUGH.as_secs_f64() / once.as_secs_f64().max(1e-6);
        let factor = (wanted * 1.2).ceil().clamp(2.0, 64.0) as u32;
        dispatches = (dispatches * factor).min(MOST_DISPATCHES);
        once = Duration::MAX;
    }
    Rated::repeat(amount * f64::from(dispatches), GOES, || {
        Ok(run(gpu, bound, groups, dispatches)?.as_secs_f64())
    })
}

/// Returns the duration of `dispatches` dispatches, from their submission until the device is done.
pub(crate) fn run(gpu: &Gpu, bound: &Bound, groups: u32, dispatches: u32) -> Result<Duration> {
    let mut recording = CommandList::new();
    recording.span("ceilings");
    for _ in 0..dispatches {
        recording.dispatch(bound.clone(), Groups::flat(groups));
    }
    let mut encoder = gpu.encoder();
    recording.encode(&mut encoder, &[]);
    let commands = encoder.finish();
    gpu.wait()?;
    let started = Instant::now();
    gpu.queue().submit([commands]);
    gpu.wait()?;
    Ok(started.elapsed())
}

/// Compiles a kernel like the kernels of engines: without runtime checks, which would be measured too.
pub(super) fn kernel(gpu: &Gpu, label: &str, wgsl: &str, entry: &str) -> Result<Kernel> {
    // SAFETY: kernels of this folder index by numbers that are masked by the lengths of their buffers or bounded by
    // them, and their loops have fixed ends; tests run them with checks.
    unsafe { Kernel::from_wgsl_unchecked(gpu, label, wgsl, entry) }
}
