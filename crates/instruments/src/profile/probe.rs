//! [`Probe`]: a listener that reports the calls and results of an engine to a recorder.
//!
//! 1. Steps, densification rounds and polls are spans of the host.
//! 2. Stages of the CPU engine follow each other without a gap from the beginning of its step. Those of a GPU have
//!    times of its own clock, which is calibrated to the host's.
//! 3. Steps whose gradients move the Gaussians together are one step of the profile, with the number of the last one.
//!    Its counts and its loss are those of the last photo. Ranks that take them are in [`super::on_ranks`].
//! 4. Counts and losses are read from reports before the trainer gets them. Reports that arrive early, during a wait,
//!    are stored until the trainer polls.

use super::on_ranks::OnRanks;
use crate::Instrumented;
use dapple::contract::instruments::Work;
use dapple::contract::{
    Call, CallListener, LossTerm, Report, Stage, StepReport, StepSettings, ViewId,
};
use dapple::scene::{Camera, Result};
use dapple::{Engine, RankTimes};
use dapple_profile::profile::Phase;
use dapple_profile::{Recorder, Span, Synchronised, Track};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Returns the phase of a stage.
pub(super) fn phase_of(stage: &str) -> Phase {
    match stage {
        "loss" | "appearance" => Phase::Loss,
        "blend_backward" => Phase::Backward,
        "update" | "densify" | "morton" => Phase::Update,
        // Numbers for the host.
        "report" => Phase::Transfer,
        _ => Phase::Forward,
    }
}

/// Listener to the engine of a run. Clones share their records.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    recorder: Recorder,
    /// Reports that arrived before the trainer polled.
    early: Vec<Report>,
    /// Begin and end of each step on the host.
    begun: HashMap<u32, [i64; 2]>,
    /// Pixels of each view.
    pixels: Vec<u64>,
    view_of_step: HashMap<u32, usize>,
    /// Step of the profile of each step that began.
    steps: HashMap<u32, u64>,
    /// Step of the profile that began last.
    last_step: u64,
    ranks: OnRanks,
    sums: Sums,
    submissions: u64,
    /// For timed steps: time from first to last span, and between the timestamps around them, ns.
    clock_check: Vec<[f64; 2]>,
    /// True if each step is waited for, because it cannot be timed otherwise.
    waits_for_steps: bool,
    /// True in [`Probe::rest`].
    rests: bool,
}

/// Sums over the steps since the recorder was set.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    pub steps: u64,
    pub work: Work,
    pub cut_instances: u64,
    pub lost_transmittance: f32,
    pub rounds: u64,
}

impl Sums {
    /// Returns the mean counts of a step.
    pub(super) fn mean(&self) -> Work {
        let n = self.steps.max(1);
        Work {
            gaussians: self.work.gaussians / n,
            visible: self.work.visible / n,
            instances: self.work.instances / n,
            row_visits: self.work.row_visits / n,
            pixels: self.work.pixels / n,
            tiles: self.work.tiles / n,
            ..self.work
        }
    }
}

impl Probe {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Ignore poisoning: a panic elsewhere makes no partial change that matters here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the recorder for later calls; clears the sums.
    pub fn set_recorder(&self, recorder: &Recorder) {
        let mut state = self.lock();
        state.recorder = recorder.clone();
        state.sums = Sums::default();
        state.clock_check.clear();
        state.begun.clear();
        state.view_of_step.clear();
        state.steps.clear();
        state.ranks = OnRanks::default();
    }

    /// Waits for every later step, for a device whose steps cannot be timed otherwise.
    pub fn wait_for_steps(&self, wait: bool) {
        self.lock().waits_for_steps = wait;
    }

    /// Waits until the device is idle and all reports have arrived. `engine` is the one that this probe listens to.
    pub fn rest(&self, engine: &mut dyn Engine) -> Result<Synchronised> {
        let recorder = self.recorder();
        let _span = recorder.span("wait for the end", Phase::Host);
        engine.finish()?;
        self.lock().rests = true;
        let polled = engine.poll();
        self.lock().rests = false;
        polled?;
        Synchronised::after(|| wait(engine))
    }

    /// Returns the times of each rank since the recorder was set; empty without ranks.
    pub(super) fn ranks(&self) -> Vec<RankTimes> {
        self.lock().ranks.total()
    }

    /// Returns the sums since the recorder was set.
    pub(super) fn sums(&self) -> Sums {
        self.lock().sums
    }

    /// See [`State::clock_check`].
    pub fn take_clock_check(&self) -> Vec<[f64; 2]> {
        std::mem::take(&mut self.lock().clock_check)
    }

    fn recorder(&self) -> Recorder {
        self.lock().recorder.clone()
    }

    fn on_step<E: Engine + ?Sized, R>(
        &self,
        view: ViewId,
        settings: &StepSettings,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        let recorder = self.recorder();
        let batch = settings.batch;
        let step = u64::from(settings.step) + u64::from(batch.size.saturating_sub(batch.index + 1));
        if recorder.is_on() {
            let mut state = self.lock();
            state.steps.insert(settings.step, step);
            state.last_step = step;
        }
        let on_host = !has_queue(engine);
        let span = recorder.span(if on_host { "step" } else { "enqueue" }, Phase::Host);
        let span = span.step(step);
        // Inside the span, so that it contains the stages.
        let begin = recorder.now_ns();
        let result = run(engine)?;
        if self.lock().waits_for_steps {
            wait(engine)?;
            recorder.end_step(step);
        }
        self.take_rank_times(engine, begin);
        drop(span);
        if recorder.is_on() {
            let mut state = self.lock();
            state.sums.work.sh_degree = settings.render.sh_degree;
            state.sums.work.ssim = settings.losses[LossTerm::Ssim] > 0.0;
            state.view_of_step.insert(settings.step, view.0);
            let end = recorder.now_ns();
            state.begun.insert(settings.step, [begin, end]);
        }
        Ok(result)
    }

    /// Takes the times of ranks after a call that may have taken steps. Call it in the span of the call.
    fn take_rank_times<E: Engine + ?Sized>(&self, engine: &mut E, begin_ns: i64) {
        let mut state = self.lock();
        if !state.recorder.is_on() {
            return;
        }
        let times = engine
            .instruments()
            .map_or(Vec::new(), |ranks| ranks.rank_times());
        if !times.is_empty() {
            let step = state.last_step;
            state.ranks.called(begin_ns, step, times);
        }
    }

    fn on_put_photo<E: Engine + ?Sized, R>(
        &self,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        let recorder = self.recorder();
        let _span = recorder.span("put photo", Phase::Transfer);
        let begin = recorder.now_ns();
        let result = run(engine)?;
        // Ranks may have taken the steps before.
        self.take_rank_times(engine, begin);
        Ok(result)
    }
}

impl State {
    /// Records finished steps.
    fn record(&mut self, engine: &mut dyn Instrumented, reports: &[Report]) {
        self.record_timings(engine);
        for report in reports {
            match report {
                Report::Step(done) => self.record_step(engine, done),
                Report::Densify(_) => self.sums.rounds += 1,
                _ => {}
            }
        }
    }

    fn record_step(&mut self, engine: &dyn Instrumented, done: &StepReport) {
        let recorder = &self.recorder;
        if !recorder.is_on() {
            return;
        }
        let (step, counts) = (self.step_of(done.step), &done.counts);
        let view = self.view_of_step.remove(&done.step);
        let pixels = view.and_then(|view| self.pixels.get(view)).copied();
        let sums = &mut self.sums;
        sums.steps += 1;
        sums.work.gaussians += counts.gaussians;
        sums.work.visible += counts.visible;
        sums.work.instances += counts.instances;
        sums.work.tiles += counts.tiles;
        sums.work.pixels += pixels.unwrap_or(0);
        sums.cut_instances += counts.cut_instances;
        sums.lost_transmittance = sums.lost_transmittance.max(counts.lost_transmittance);
        let counted = engine.counted();
        sums.work.row_visits += counted.map_or(0, |work| work.row_visits);
        recorder.loss(step, done.loss.into());
        let mean = counts.instances as f64 / counts.tiles.max(1) as f64;
        for (name, unit, value) in [
            ("Gaussians", "", counts.gaussians as f64),
            ("visible Gaussians", "", counts.visible as f64),
            ("instances", "", counts.instances as f64),
            ("instances a tile, mean", "", mean),
            (
                "instances a tile, most",
                "",
                counts.max_instances_per_tile as f64,
            ),
            ("instances cut", "", counts.cut_instances as f64),
        ] {
            recorder.counter(name, unit, step, value);
        }
        let begun = self.begun.get(&done.step);
        if let (false, Some(&[begin, end])) = (engine.has_queue(), begun) {
            let mut at = begin;
            // Ranks compare several photos at the same time.
            let in_order = match self.ranks.are_used() {
                true => &[],
                false => done.stages.as_slice(),
            };
            for time in in_order {
                let span = Span::new(time.stage.name(), at, time.duration_ns)
                    .phase(phase_of(time.stage.name()))
                    .step(step);
                at += time.duration_ns as i64;
                recorder.add_span(Track::Host, span);
            }
            recorder.end_step_at(step, end);
        }
        self.begun.remove(&done.step);
        self.ranks.reported(&self.recorder, done);
    }

    /// Returns the step of the profile that a step belongs to.
    fn step_of(&self, step: u32) -> u64 {
        self.steps.get(&step).copied().unwrap_or(step.into())
    }

    /// Passes spans of the device to the recorder.
    fn record_timings(&mut self, engine: &mut dyn Instrumented) {
        let Some(clock) = engine.device_clock() else {
            return;
        };
        let offset = self.recorder.offset_of(clock.origin);
        for done in engine.timings() {
            self.submissions += 1;
            let step = self.step_of(done.step);
            let spans = &done.spans;
            let last = spans.last().map(|s| s.start_ns + s.duration_ns as i64);
            let (Some(first), Some(last)) = (spans.first().map(|s| s.start_ns), last) else {
                continue;
            };
            if !done.is_densify {
                self.recorder.end_step_at(step, last + offset);
                if let Some(whole) = done.whole_ns {
                    self.clock_check.push([(last - first) as f64, whole as f64]);
                }
            }
            for span in done.spans {
                let begin = span.start_ns + offset;
                let (track, of) = match span.kernel {
                    Some(kernel) => (
                        Track::Kernels,
                        Span::new(kernel, begin, span.duration_ns).stage(span.stage),
                    ),
                    None => (
                        Track::Device,
                        Span::new(span.stage, begin, span.duration_ns),
                    ),
                };
                let of = of
                    .phase(phase_of(span.stage))
                    .step(step)
                    .submission(self.submissions);
                self.recorder.add_span(track, of);
            }
        }
    }
}

impl CallListener for Probe {
    fn on_call<E: Engine + ?Sized, R>(
        &self,
        call: &Call<'_>,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        match *call {
            Call::AddViews(cameras) => {
                let pixels = |c: &Camera| u64::from(c.width) * u64::from(c.height);
                self.lock().pixels.extend(cameras.iter().map(pixels));
                run(engine)
            }
            Call::Step(view, settings) => self.on_step(view, settings, engine, run),
            Call::Densify(plan) => {
                let recorder = self.recorder();
                let (name, phase) = match has_queue(engine) {
                    false => (Stage::Densify.name(), Phase::Update),
                    true => ("enqueue density control", Phase::Host),
                };
                let _span = recorder.span(name, phase).step(u64::from(plan.step));
                run(engine)
            }
            Call::PutPhoto(_) => self.on_put_photo(engine, run),
            Call::Poll if !self.lock().rests => {
                let recorder = self.recorder();
                let _span = recorder.span("poll", Phase::Host);
                run(engine)
            }
            _ => run(engine),
        }
    }

    fn on_reports<E: Engine + ?Sized>(&self, engine: &mut E, reports: &mut Vec<Report>) {
        let mut state = self.lock();
        if let Some(instruments) = engine.instruments() {
            state.record(instruments, reports);
        }
        if state.rests {
            state.early.append(reports);
        } else {
            let late = std::mem::replace(reports, std::mem::take(&mut state.early));
            reports.extend(late);
        }
    }
}

/// Returns true if the engine has a queue.
fn has_queue<E: Engine + ?Sized>(engine: &mut E) -> bool {
    engine
        .instruments()
        .is_some_and(|instruments| instruments.has_queue())
}

/// Waits until the device is idle.
fn wait<E: Engine + ?Sized>(engine: &mut E) -> Result<()> {
    match engine.instruments() {
        Some(instruments) => instruments.wait(),
        None => Ok(()),
    }
}
