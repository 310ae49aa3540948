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
use dapple::contract::instruments::{Counters, Detail};
use dapple::{Error, ErrorKind, Progress, Result, Splats, Trainer};
use dapple_profile::profile::{Control, KernelSummary, Phase};
use dapple_profile::samples::{DEFAULT_HZ, Sampler};
use dapple_profile::{ControlTimer, Recorder, Recording, kernels_of};
use std::time::Instant;

/// Steps that are timed before the window at most: more than are ever on their way.
const TIMED_FIRST: u32 = 160;
/// Steps with each dispatch timed alone, at most.
const KERNEL_STEPS: u32 = 40;
/// Seconds of samples to aim for, and steps that are sampled at most, in numbers of measured steps.
const SAMPLED_SECONDS: f64 = 2.0;
const SAMPLED_WINDOWS: u32 = 8;

/// What progress calls it.
const WHAT: &str = "profiling";

/// All windows.
pub(super) struct Windows {
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
pub(super) struct Run<'a> {
    pub trainer: &'a mut Trainer,
    pub probe: &'a Probe,
    /// Told of steps; asked whether to stop.
    pub progress: &'a dyn Progress,
    /// Whether the engine has a queue.
    pub queued: bool,
    pub warm_up: u32,
    pub steps: u32,
}

impl Run<'_> {
    /// Windows 1 to 4.
    pub fn measure(mut self) -> Result<Windows> {
        let n = self.steps;
        self.progress.start(WHAT, self.total());
        self.advance(self.warm_up)?;
        self.probe.rest()?;

        let mut control = ControlTimer::new(self.threads());
        control.take();
        let first = n / 2;
        let before = self.off(first)?;
        let device_clock = self.queued && self.probe.set_detail(Some(Detail::Stages))?;
        let waited_for_steps = self.queued && !device_clock;
        self.probe.wait_for_steps(waited_for_steps);
        // What timing itself allocates, it allocates before the window.
        self.advance(n.min(TIMED_FIRST))?;
        self.probe.rest()?;
        control.take();
        let (recording, asked) = self.window(n)?;
        let on_ns = recording.wall_ns() as f64 / f64::from(n);
        let (sums, check) = (self.probe.sums(), self.probe.take_clock_check());
        let clock = self.probe.device_clock();
        self.probe.set_recorder(&Recorder::off());
        self.probe.set_detail(None)?;
        self.probe.wait_for_steps(false);
        let splats = self.trainer.engine_mut().splats()?;
        let steps_done = self.trainer.steps_done();
        control.take();
        let after = self.off(n - first)?;
        control.take();
        let kernels = if device_clock {
            self.kernels(n.min(KERNEL_STEPS))?
        } else {
            Vec::new()
        };
        let flamegraph = self.sampled(on_ns)?;
        self.progress.finish();
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
            calibration_error_ns: clock.map(|clock| clock.uncertainty_ns),
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
        self.probe.with(|engine| engine.workers()).unwrap_or(1)
    }

    /// Steps of all windows but what sampling takes beyond its share.
    fn total(&self) -> u64 {
        let sampled = self.steps;
        let kernels = match self.queued {
            true => self.steps.min(KERNEL_STEPS),
            false => 0,
        };
        let first = self.steps.min(TIMED_FIRST);
        u64::from(self.warm_up) + u64::from(2 * self.steps + first + kernels + sampled)
    }

    /// So many steps.
    fn advance(&mut self, steps: u32) -> Result<()> {
        for _ in 0..steps {
            if self.progress.should_stop() {
                let what = "the profile was stopped; nothing was written";
                return Err(Error::new(ErrorKind::Interrupted, what));
            }
            self.trainer.step()?;
            self.progress.advance(1);
        }
        Ok(())
    }

    /// So many steps, each in a span, and what they asked of the device. The probe keeps its sums
    /// until it is given another recorder.
    fn window(&mut self, steps: u32) -> Result<(Recording, Counters)> {
        let recorder = Recorder::new();
        self.probe.set_recorder(&recorder);
        let begin = self.probe.counters();
        recorder.begin_window(self.probe.rest()?);
        for _ in 0..steps {
            let step = u64::from(self.trainer.steps_done()) + 1;
            let _span = recorder.span("trainer", Phase::Host).step(step);
            self.advance(1)?;
        }
        let asked = self.probe.counters() - begin;
        recorder.end_window(self.probe.rest()?);
        Ok((recorder.finish()?, asked))
    }

    /// Steps without the profiler: their wall time, ns.
    fn off(&mut self, steps: u32) -> Result<f64> {
        self.probe.rest()?;
        let started = Instant::now();
        self.advance(steps)?;
        self.probe.rest()?;
        Ok(started.elapsed().as_nanos() as f64)
    }

    /// Steps with each dispatch timed alone.
    fn kernels(&mut self, steps: u32) -> Result<Vec<KernelSummary>> {
        self.probe.set_detail(Some(Detail::Kernels))?;
        let kernels = kernels_of(&self.window(steps)?.0);
        self.probe.set_recorder(&Recorder::off());
        self.probe.set_detail(None)?;
        Ok(kernels)
    }

    /// Steps whose CPU time is sampled.
    fn sampled(&mut self, step_ns: f64) -> Result<Result<String, String>> {
        let enough = (SAMPLED_SECONDS * 1e9 / step_ns.max(1.0)).ceil() as u32;
        let steps = enough.clamp(1, SAMPLED_WINDOWS.saturating_mul(self.steps));
        let sampler = match Sampler::start(DEFAULT_HZ) {
            Ok(sampler) => sampler,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.advance(steps)?;
        self.probe.rest()?;
        let drawn = sampler
            .finish()
            .and_then(|samples| samples.to_svg("dapple profile: CPU time of the host"));
        Ok(drawn.map_err(|error| error.to_string()))
    }
}

fn medians(pairs: Vec<[f64; 2]>) -> Option<[f64; 2]> {
    let median = |which: usize| {
        let mut values: Vec<f64> = pairs.iter().map(|pair| pair[which]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    Some([median(0)?, median(1)?])
}
