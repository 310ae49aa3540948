//! Bottlenecks of tensor operations on this machine: the profiler over [`workload`].
//!
//! 1. Compile the operations; run each once to warm the device up.
//! 2. A step is a number of runs of each operation, replayed: on a GPU one submission, each operation a span and a
//!    pass. With an injected fault ([`InjectedFault`]) a step is one run of each, executed as in slow programs.
//! 3. Half of the steps run without the profiler, all of them with it, the other half without. Some runs follow in
//!    which every dispatch is timed separately, then a second with samples of CPU time.
//! 4. Statistics, budget and findings are those of any other program ([`dapple_profile::analyse`]). `report` adds the
//!    cost of operations by formula, and a table of the measures in use for tensor runtimes.

mod report;
mod steps;
pub mod workload;

use crate::profile::Told;
use dapple::{Progress, Result};
use dapple_profile::profile::{Fact, Phase, Trace};
use dapple_profile::samples::{DEFAULT_HZ, Sampler};
use dapple_profile::{ControlTimer, Profile, Recorder, analyse};
use dapple_tensor::Context;
use std::time::{Duration, Instant};
use steps::Runner;
use workload::{InjectedFault, Workload};

/// Operations to profile, and limits of the measurement.
#[derive(Debug, Clone)]
pub struct OpsOptions {
    /// Names of operations or their families; empty for all.
    pub only: Vec<String>,
    /// Skips operations with more multiply-adds than this, unless they are named.
    pub most: usize,
    /// Measured runs of each operation.
    pub iterations: u32,
    /// Time limit of the whole profile, which reduces the number of runs.
    pub time_limit: Duration,
    /// Fault to inject.
    pub plant: Option<InjectedFault>,
    /// True to sample the host's CPU time, which interrupts all threads of the process.
    pub samples: bool,
}

/// A profile of operations with its attachments.
#[derive(Debug)]
pub struct OpsProfiled {
    /// Statistics, budget and findings.
    pub profile: Profile,
    /// Timeline of the profile.
    pub trace: Trace,
    /// CPU time of the host as an SVG, or the reason why it is missing.
    pub flamegraph: Result<String, String>,
}

/// Most steps of a window, all of which may be in flight.
const MOST_STEPS: u32 = 100;
/// Most steps of a window with an injected fault, whose steps are many submissions.
const MOST_PLANTED: u32 = 25;
/// Runs with each dispatch timed separately.
const KERNEL_STEPS: u32 = 10;
/// Duration of sampling.
const SAMPLED: Duration = Duration::from_secs(1);

/// Number of steps of a window, and of runs of each operation in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    steps: u32,
    runs: u32,
}

impl Shape {
    /// Computes the shape for the requested runs of `run` each, within a third of the time limit (there are two
    /// windows, and the work around them).
    fn new(options: &OpsOptions, run: Duration) -> Self {
        let affordable = options.time_limit.as_secs_f64() / 3.0 / run.as_secs_f64().max(1e-9);
        let all = options.iterations.min(affordable as u32).max(1);
        match options.plant {
            Some(plant) if plant != InjectedFault::NaiveMatmul => Self {
                steps: all.min(MOST_PLANTED),
                runs: 1,
            },
            _ => {
                let steps = all.min(MOST_STEPS);
                Self {
                    steps,
                    runs: all / steps,
                }
            }
        }
    }
}

/// Profiles operations on a device.
///
/// # Errors
/// A name of no operation; no memory; a lost device; `progress` requests a stop.
pub fn profile(
    context: &Context,
    device: Vec<Fact>,
    options: &OpsOptions,
    told: Told,
    progress: &dyn Progress,
) -> Result<OpsProfiled> {
    let workload = Workload::new(context, &options.only, options.most, options.plant)?;
    if workload.operations.is_empty() {
        let what = "no operation is left to profile";
        return Err(dapple::Error::input(what).hint("name some with --only"));
    }
    let mut runner = Runner::new(context, workload, progress)?;
    // The first run includes what drivers compile late, the second is warm.
    runner.set_runs(1)?;
    runner.plain(1)?;
    let run = runner.plain(1)?;
    let shape = Shape::new(options, run);
    progress.start("profiling", u64::from(4 * shape.steps));
    runner.set_runs(shape.runs as usize)?;
    let dispatch_ns = runner.dispatch_ns()?;

    let mut control = ControlTimer::new(runner.threads());
    control.take();
    let first = shape.steps / 2;
    let before = runner.plain(first)?;
    // Timing allocates its own buffers here, before the window.
    drop(runner.window(&Recorder::off(), shape.steps)?);
    control.take();
    let recorder = Recorder::new();
    let timed = runner.window(&recorder, shape.steps)?;
    control.take();
    let after = runner.plain(shape.steps - first)?;
    control.take();
    let kernels = runner.kernels(KERNEL_STEPS.min(shape.steps))?;
    let flamegraph = match options.plant {
        // Drivers that register code while they compile cannot be interrupted by an unwinder.
        Some(InjectedFault::NoPool) => {
            Err("each run compiles, and compilers are not sampled".to_owned())
        }
        _ if !options.samples => Err("CPU samples were not requested".to_owned()),
        _ => sampled(&mut runner)?,
    };
    progress.finish();

    let setup = report::About {
        runner: &runner,
        told,
        device,
        options,
        shape,
        timed: &timed,
        off_ns: (shape.steps > 1)
            .then(|| (before + after).as_nanos() as f64 / f64::from(shape.steps)),
        dispatch_ns,
        control: control.finish(),
        kernels,
    }
    .setup();
    let (mut profile, trace) = analyse(&timed.recording, &setup)?;
    profile
        .tables
        .insert(0, report::measures(&profile, runner.operations(), shape));
    Ok(OpsProfiled {
        profile,
        trace,
        flamegraph,
    })
}

/// Runs steps whose CPU time is sampled.
fn sampled(runner: &mut Runner<'_>) -> Result<Result<String, String>> {
    let sampler = match Sampler::start(DEFAULT_HZ) {
        Ok(sampler) => sampler,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let started = Instant::now();
    while started.elapsed() < SAMPLED {
        runner.plain(1)?;
    }
    let drawn = sampler
        .finish()
        .and_then(|samples| samples.to_svg("dapple profile ops: CPU time of the host"));
    Ok(drawn.map_err(|error| error.to_string()))
}

/// Returns the phase of an operation.
fn phase(is_backward: bool) -> Phase {
    match is_backward {
        true => Phase::Backward,
        false => Phase::Forward,
    }
}
