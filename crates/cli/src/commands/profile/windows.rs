//! What is measured, window by window, of one training run.
//!
//! 1. Warm-up: buffers grow, kernels compile, caches and clocks warm up; training comes to where it is
//!    to be looked at.
//! 2. Half of the steps without the profiler, all of them with it, the other half without: what it
//!    costs, drift taken out.
//! 3. On a GPU: some steps in which every dispatch is timed alone.
//! 4. Some steps whose CPU time is sampled, apart from the others, which it would disturb.
//!
//! Every window begins and ends while the device has nothing to do. Around them a loop that nothing
//! changes is timed ([`ControlTimer`]): it tells what the machine itself did.

use super::probe::{Probe, Sums};
use crate::console::Console;
use crate::interrupt::Grace;
use dapple::Trainer;
use dapple::runtime::{Counters, Detail};
use dapple::scene::{Error, ErrorKind, Result, Splats};
use dapple_profile::profile::{Control, KernelSummary, Phase};
use dapple_profile::samples::{DEFAULT_HZ, Sampler};
use dapple_profile::{ControlTimer, Recorder, Recording, kernels_of};
use indicatif::ProgressBar;
use std::time::Instant;

/// Steps that are timed before the window at most: more than are ever on their way.
const TIMED_FIRST: u32 = 160;
/// Steps with each dispatch timed alone, at most.
const KERNEL_STEPS: u32 = 40;
/// Seconds of samples to aim for, and steps that are sampled at most, in numbers of measured steps.
const SAMPLED_SECONDS: f64 = 2.0;
const SAMPLED_WINDOWS: u32 = 8;

/// All windows.
pub struct Windows {
    /// Of the steps with the profiler on.
    pub recording: Recording,
    pub sums: Sums,
    /// What the host asked of the device in them.
    pub asked: Counters,
    /// Step without and with the profiler, ns, means over windows; none with a single step.
    pub off_ns: Option<f64>,
    pub on_ns: f64,
    /// Whether stages were timed on the device.
    pub device_clock: bool,
    /// Whether each step was waited for.
    pub waited_for_steps: bool,
    /// Uncertainty of places on the host's clock, ns.
    pub calibration_error_ns: Option<f64>,
    /// Median step: first to last stage, and between timestamps of its own around it, ns.
    pub clock_check: Option<[f64; 2]>,
    pub kernels: Vec<KernelSummary>,
    /// Around the windows of point 2.
    pub control: Control,
    /// At the end of these steps, and how many steps had led there.
    pub splats: Splats,
    pub steps_done: u32,
    /// An SVG, or why there is none.
    pub flamegraph: Result<String, String>,
}

/// A run under measurement.
pub struct Run<'a> {
    pub trainer: &'a mut Trainer,
    pub probe: &'a Probe,
    pub grace: &'a Grace,
    pub console: &'a Console,
    pub on_gpu: bool,
    pub warm_up: u32,
    pub steps: u32,
}

impl Run<'_> {
    /// Windows 1 to 4.
    pub fn measure(mut self) -> Result<Windows> {
        let n = self.steps;
        let bar = self.bar();
        self.advance(self.warm_up, &bar)?;
        self.probe.rest()?;

        let mut control = ControlTimer::new(self.threads());
        control.take();
        let first = n / 2;
        let before = self.off(first, &bar)?;
        let device_clock = self.on_gpu && self.probe.set_timing(Some(Detail::Spans))?;
        let waited_for_steps = self.on_gpu && !device_clock;
        self.probe.wait_for_steps(waited_for_steps);
        // What timing itself allocates, it allocates before the window.
        self.advance(n.min(TIMED_FIRST), &bar)?;
        self.probe.rest()?;
        control.take();
        let (recording, asked) = self.window(n, &bar)?;
        let on_ns = recording.wall_ns() as f64 / f64::from(n);
        let (sums, check) = (self.probe.sums(), self.probe.take_clock_check());
        let calibration_error_ns = self.probe.with(|engine| match engine {
            dapple::AnyEngine::Gpu(engine) => {
                engine.clock().map(|c| c.calibration().uncertainty_ns)
            }
            _ => None,
        });
        self.probe.set_recorder(&Recorder::off());
        self.probe.set_timing(None)?;
        self.probe.wait_for_steps(false);
        let splats = self.trainer.engine_mut().splats()?;
        let steps_done = self.trainer.steps_done();
        control.take();
        let after = self.off(n - first, &bar)?;
        control.take();
        let kernels = if device_clock {
            self.kernels(n.min(KERNEL_STEPS), &bar)?
        } else {
            Vec::new()
        };
        let flamegraph = self.sampled(on_ns, &bar)?;
        bar.finish_and_clear();
        let whole = f64::from(n);
        Ok(Windows {
            recording,
            sums,
            asked,
            // A single step is all noise.
            off_ns: (n > 1).then_some((before + after) / whole),
            on_ns,
            device_clock,
            waited_for_steps,
            calibration_error_ns,
            clock_check: medians(check),
            kernels,
            control: control.finish(),
            splats,
            steps_done,
            flamegraph,
        })
    }

    /// Those that the engine works with; beside a GPU, the one that drives it.
    fn threads(&self) -> usize {
        self.probe.with(|engine| match engine {
            dapple::AnyEngine::Cpu(engine) => engine.threads(),
            _ => 1,
        })
    }

    fn bar(&self) -> ProgressBar {
        let sampled = self.steps;
        let kernels = if self.on_gpu {
            self.steps.min(KERNEL_STEPS)
        } else {
            0
        };
        let first = self.steps.min(TIMED_FIRST);
        let total = u64::from(self.warm_up) + u64::from(2 * self.steps + first + kernels + sampled);
        self.console
            .bar(total, "profiling {wide_bar} {pos}/{len} steps  {msg}")
    }

    /// So many steps.
    fn advance(&mut self, steps: u32, bar: &ProgressBar) -> Result<()> {
        for _ in 0..steps {
            self.grace
                .check(|| "the profile was stopped; nothing was written".to_owned())?;
            self.trainer.step()?;
            bar.inc(1);
        }
        Ok(())
    }

    /// So many steps, each in a span, and what they asked of the device. The probe keeps its sums
    /// until it is given another recorder.
    fn window(&mut self, steps: u32, bar: &ProgressBar) -> Result<(Recording, Counters)> {
        let recorder = Recorder::new();
        self.probe.set_recorder(&recorder);
        let begin = self.probe.counters();
        recorder.begin_window(self.probe.rest()?);
        for _ in 0..steps {
            let step = u64::from(self.trainer.steps_done()) + 1;
            let _span = recorder.span("trainer", Phase::Host).step(step);
            self.advance(1, bar)?;
        }
        let asked = self.probe.counters() - begin;
        recorder.end_window(self.probe.rest()?);
        Ok((recorder.finish().map_err(told)?, asked))
    }

    /// Steps without the profiler: their wall time, ns.
    fn off(&mut self, steps: u32, bar: &ProgressBar) -> Result<f64> {
        self.probe.rest()?;
        let started = Instant::now();
        self.advance(steps, bar)?;
        self.probe.rest()?;
        Ok(started.elapsed().as_nanos() as f64)
    }

    /// Steps with each dispatch timed alone.
    fn kernels(&mut self, steps: u32, bar: &ProgressBar) -> Result<Vec<KernelSummary>> {
        self.probe.set_timing(Some(Detail::Dispatches))?;
        let kernels = kernels_of(&self.window(steps, bar)?.0);
        self.probe.set_recorder(&Recorder::off());
        self.probe.set_timing(None)?;
        Ok(kernels)
    }

    /// Steps whose CPU time is sampled.
    fn sampled(&mut self, step_ns: f64, bar: &ProgressBar) -> Result<Result<String, String>> {
        let enough = (SAMPLED_SECONDS * 1e9 / step_ns.max(1.0)).ceil() as u32;
        let steps = enough.clamp(1, SAMPLED_WINDOWS.saturating_mul(self.steps));
        let sampler = match Sampler::start(DEFAULT_HZ) {
            Ok(sampler) => sampler,
            Err(error) => return Ok(Err(error.to_string())),
        };
        bar.set_length(bar.position() + u64::from(steps));
        self.advance(steps, bar)?;
        self.probe.rest()?;
        let drawn = sampler
            .finish()
            .and_then(|samples| samples.to_svg("dapple profile: CPU time of the host"));
        Ok(drawn.map_err(|error| error.to_string()))
    }
}

/// An error of the profiler as one of this program.
pub fn told(error: dapple_profile::Error) -> Error {
    let kind = match error.kind() {
        dapple_profile::ErrorKind::Io => ErrorKind::Io,
        _ => ErrorKind::Input,
    };
    let what = match std::error::Error::source(&error) {
        Some(source) => format!("{}: {source}", error.what()),
        None => error.what().to_owned(),
    };
    let mut told = Error::new(kind, what);
    if let Some(place) = error.place() {
        told = told.at(place.to_owned());
    }
    if let Some(hint) = error.hint_text() {
        told = told.hint(hint.to_owned());
    }
    told
}

fn medians(pairs: Vec<[f64; 2]>) -> Option<[f64; 2]> {
    let median = |which: usize| {
        let mut values: Vec<f64> = pairs.iter().map(|pair| pair[which]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some([median(0)?, median(1)?])
}
