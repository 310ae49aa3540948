//! Windows of a profile: parts of one training run, each measured in another way.
//!
//! 1. Warm-up: buffers grow, kernels compile, caches and clocks warm up; training reaches the state to measure.
//! 2. Half of the steps without the profiler, all of them with it, the other half without: the difference is the cost
//!    of the profiler, without drift.
//! 3. On a GPU: some steps in which every dispatch is timed separately.
//! 4. Some steps whose CPU time is sampled, apart from the others, because sampling would disturb them.
//!
//! A step has all photos whose gradients move the Gaussians together: that is one step of the trainer for each.
//!
//! The device is idle at the begin and the end of every window. Around the windows a constant loop is timed
//! ([`ControlTimer`]), which shows changes of the machine's own speed.

use super::probe::{Probe, Sums};
use crate::Instrumented;
use dapple::contract::EngineExt;
use dapple::contract::instruments::{Counters, Detail};
use dapple::{Error, ErrorKind, Progress, RankTimes, Result, Splats, Trainer};
use dapple_profile::profile::{Control, KernelSummary, Phase};
use dapple_profile::samples::{DEFAULT_HZ, Sampler};
use dapple_profile::{ControlTimer, Recorder, Recording, Span, Synchronised, Track, kernels_of};
use std::time::Instant;

/// Most timed steps before the window: more than are ever in flight.
const TIMED_FIRST: u32 = 160;
/// Most steps with each dispatch timed separately.
const KERNEL_STEPS: u32 = 40;
/// Duration of sampling to aim for, s, and most sampled steps, as a multiple of the measured steps.
const SAMPLED_SECONDS: f64 = 2.0;
const SAMPLED_WINDOWS: u32 = 8;

/// Label for progress reports.
const WHAT: &str = "profiling";

/// All windows.
pub(super) struct Windows {
    /// Recording of the steps with the profiler on.
    pub recording: Recording,
    pub sums: Sums,
    /// Times of each rank in these steps; empty without ranks.
    pub ranks: Vec<RankTimes>,
    /// Calls of the host to the device in these steps.
    pub asked: Counters,
    /// Time of a step without the profiler (`off_ns`) and with it (`on_ns`), ns, means over windows. `off_ns` is `None`
    /// with a single step.
    pub off_ns: Option<f64>,
    pub on_ns: f64,
    /// True if stages were timed on the device.
    pub device_clock: bool,
    /// True if each step was waited for.
    pub waited_for_steps: bool,
    /// Uncertainty of times on the host's clock, ns.
    pub calibration_error_ns: Option<f64>,
    /// For the median step: time from first to last stage, and between the timestamps around them, ns.
    pub clock_check: Option<[f64; 2]>,
    pub kernels: Vec<KernelSummary>,
    /// Timing of the constant loop around the windows of point 2.
    pub control: Control,
    /// Splats at the end of these steps, and the number of steps before.
    pub splats: Splats,
    pub steps_done: u32,
    /// CPU time as an SVG, or the reason why it is missing.
    pub flamegraph: Result<String, String>,
}

/// A run under measurement.
pub(super) struct Run<'a> {
    pub trainer: &'a mut Trainer,
    pub probe: &'a Probe,
    /// Receives the steps, and may request a stop.
    pub progress: &'a dyn Progress,
    /// True if the engine has a queue.
    pub queued: bool,
    pub warm_up: u32,
    pub steps: u32,
}

impl Run<'_> {
    /// Runs windows 1 to 4.
    pub fn measure(mut self) -> Result<Windows> {
        let n = self.steps;
        self.check_length()?;
        self.progress.start(WHAT, self.total());
        self.advance(self.warm_up)?;
        self.rest()?;

        let mut control = ControlTimer::new(self.threads()?);
        control.take();
        let first = n / 2;
        let before = self.off(first)?;
        let device_clock = self.queued && self.instruments()?.set_detail(Some(Detail::Stages))?;
        let waited_for_steps = self.queued && !device_clock;
        self.probe.wait_for_steps(waited_for_steps);
        // Timing allocates its own buffers here, before the window.
        self.advance(n.min(TIMED_FIRST))?;
        self.rest()?;
        control.take();
        let (recording, asked) = self.window(n)?;
        let on_ns = recording.wall_ns() as f64 / f64::from(n);
        let (sums, check) = (self.probe.sums(), self.probe.take_clock_check());
        let ranks = self.probe.ranks();
        let clock = self.instruments()?.device_clock();
        self.probe.set_recorder(&Recorder::off());
        self.instruments()?.set_detail(None)?;
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
            ranks,
            asked,
            // With a single step the difference is only noise.
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

    /// Returns the number of working threads: on a GPU, 1, the one that drives it.
    fn threads(&mut self) -> Result<usize> {
        Ok(self.instruments()?.workers().unwrap_or(1))
    }

    fn instruments(&mut self) -> Result<&mut dyn Instrumented> {
        crate::instruments_of(self.trainer.engine_mut().as_mut())
    }

    /// See [`Probe::rest`].
    fn rest(&mut self) -> Result<Synchronised> {
        self.probe.rest(self.trainer.engine_mut().as_mut())
    }

    /// Returns the steps of all windows, except for what sampling takes beyond its share.
    fn total(&self) -> u64 {
        let sampled = self.steps;
        let kernels = match self.queued {
            true => self.steps.min(KERNEL_STEPS),
            false => 0,
        };
        let first = self.steps.min(TIMED_FIRST);
        let steps = u64::from(self.warm_up) + u64::from(2 * self.steps + first + kernels + sampled);
        steps * u64::from(self.photos())
    }

    /// Returns the steps that the run has left. Steps of one photo may also follow its end.
    fn steps_left(&self) -> u32 {
        let photos = self.photos();
        match photos {
            1 => u32::MAX,
            _ => self.last_step().saturating_sub(self.trainer.steps_done()) / photos,
        }
    }

    fn last_step(&self) -> u32 {
        self.trainer.schedule().plan().last_step()
    }

    /// # Errors
    /// More steps than the run has.
    fn check_length(&self) -> Result<()> {
        let photos = self.photos();
        let needed = self.total() / u64::from(photos);
        if needed <= u64::from(self.steps_left()) {
            return Ok(());
        }
        Err(Error::input(format!(
            "the profile takes {needed} steps of {photos} photos, and the run has {} photos in all",
            self.last_step()
        ))
        .at("the length of the profile")
        .hint("lower --steps, --warmup or --views-per-step, or take a longer preset"))
    }

    /// Returns the photos of a step.
    fn photos(&self) -> u32 {
        self.trainer.config().views_per_step.max(1)
    }

    /// Runs `steps` steps.
    fn advance(&mut self, steps: u32) -> Result<()> {
        for _ in 0..u64::from(steps) * u64::from(self.photos()) {
            self.take_photo()?;
        }
        Ok(())
    }

    /// Takes one step of the trainer.
    fn take_photo(&mut self) -> Result<()> {
        if self.progress.should_stop() {
            let what = "the profile was stopped; nothing was written";
            return Err(Error::new(ErrorKind::Interrupted, what));
        }
        self.trainer.step()?;
        self.progress.advance(1);
        Ok(())
    }

    /// Takes one step of the trainer, and records how long it waited for its photo, which it does first.
    fn advance_in(&mut self, recorder: &Recorder, step: u64) -> Result<()> {
        let waited = |run: &Self| run.trainer.photo_traffic().map_or(0.0, |t| t.wait_seconds);
        let (begin, before) = (recorder.now_ns(), waited(self));
        self.take_photo()?;
        let ns = 1e9 * (waited(self) - before);
        if ns > 0.0 {
            let span = Span::new("wait for a photo", begin, ns as u64);
            recorder.add_span(Track::Host, span.phase(Phase::Input).step(step));
        }
        Ok(())
    }

    /// Runs `steps` steps, each in a span, and counts their calls to the device. The probe keeps its sums until it gets
    /// another recorder.
    fn window(&mut self, steps: u32) -> Result<(Recording, Counters)> {
        let recorder = Recorder::new();
        self.probe.set_recorder(&recorder);
        let begin = self.instruments()?.counters();
        let idle = self.rest()?;
        // Begins to measure waits, if there are ranks.
        self.instruments()?.rank_times();
        recorder.begin_window(idle);
        let photos = self.photos();
        for _ in 0..steps {
            let step = u64::from(self.trainer.steps_done() + photos);
            let span = recorder.span("trainer", Phase::Host).step(step);
            for _ in 0..photos {
                self.advance_in(&recorder, step)?;
            }
            drop(span);
        }
        let asked = self.instruments()?.counters() - begin;
        let idle = self.rest()?;
        recorder.end_window(idle);
        Ok((recorder.finish()?, asked))
    }

    /// Runs steps without the profiler. Returns their wall time, ns.
    fn off(&mut self, steps: u32) -> Result<f64> {
        self.rest()?;
        let started = Instant::now();
        self.advance(steps)?;
        self.rest()?;
        Ok(started.elapsed().as_nanos() as f64)
    }

    /// Runs steps with each dispatch timed separately.
    fn kernels(&mut self, steps: u32) -> Result<Vec<KernelSummary>> {
        self.instruments()?.set_detail(Some(Detail::Kernels))?;
        let kernels = kernels_of(&self.window(steps)?.0);
        self.probe.set_recorder(&Recorder::off());
        self.instruments()?.set_detail(None)?;
        Ok(kernels)
    }

    /// Runs steps whose CPU time is sampled.
    fn sampled(&mut self, step_ns: f64) -> Result<Result<String, String>> {
        let enough = (SAMPLED_SECONDS * 1e9 / step_ns.max(1.0)).ceil() as u32;
        let steps = enough.clamp(1, SAMPLED_WINDOWS.saturating_mul(self.steps));
        let steps = steps.min(self.steps_left());
        let sampler = match Sampler::start(DEFAULT_HZ) {
            Ok(sampler) => sampler,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.advance(steps)?;
        self.rest()?;
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
