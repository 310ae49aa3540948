//! [`Probe`]: an engine that reports its calls and results to a recorder. The trainer drives the probe like the engine
//! itself.
//!
//! 1. Every call is a span of the host.
//! 2. Stages of the CPU engine follow each other without a gap from the beginning of its step. Those of a GPU have
//!    times of its own clock, which is calibrated to the host's.
//! 3. Counts and losses are read from reports before the trainer gets them. Reports that arrive early, during a wait,
//!    are stored until the trainer polls.

use crate::Instrumented;
use dapple::contract::instruments::{Counters, Detail, DeviceClock, Work};
use dapple::contract::{
    BlendCounts, BlendGradients, DepthSample, ImageDerivative, RenderedBytes, Stage, StepReport,
};
use dapple::contract::{
    CropLoss, DensifyPlan, LossTerm, OptimizerState, Report, ScoreAsks, ScoredView, StepSettings,
    TrainView, ViewId, ViewState,
};
use dapple::scene::{Camera, Photo, Result, Splats};
use dapple::{Engine, Gradients, RenderSettings, Rendered};
use dapple_profile::profile::Phase;
use dapple_profile::{Recorder, Span, Synchronised, Track};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
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

/// An engine under observation. Clones are the same engine.
#[derive(Clone)]
pub(crate) struct Probe {
    state: Arc<Mutex<State>>,
}

struct State {
    engine: Box<dyn Instrumented>,
    recorder: Recorder,
    /// Reports that arrived before the trainer polled.
    early: VecDeque<Report>,
    /// Begin and end of each step on the host.
    begun: HashMap<u32, [i64; 2]>,
    /// Pixels of each view.
    pixels: Vec<u64>,
    view_of_step: HashMap<u32, usize>,
    sums: Sums,
    submissions: u64,
    /// For timed steps: time from first to last span, and between the timestamps around them, ns.
    clock_check: Vec<[f64; 2]>,
    /// True if each step is waited for, because it cannot be timed otherwise.
    waits_for_steps: bool,
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
    /// Wraps an engine; nothing is recorded yet.
    pub fn new(engine: Box<dyn Instrumented>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                engine,
                recorder: Recorder::off(),
                early: VecDeque::new(),
                begun: HashMap::new(),
                pixels: Vec::new(),
                view_of_step: HashMap::new(),
                sums: Sums::default(),
                submissions: 0,
                clock_check: Vec::new(),
                waits_for_steps: false,
            })),
        }
    }

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
    }

    /// Turns timing on the device on or off; returns false if the device has no clock.
    pub fn set_detail(&self, detail: Option<Detail>) -> Result<bool> {
        self.lock().engine.set_detail(detail)
    }

    /// Waits for every later step, for a device whose steps cannot be timed otherwise.
    pub fn wait_for_steps(&self, wait: bool) {
        self.lock().waits_for_steps = wait;
    }

    /// Waits until the device is idle and all reports have arrived.
    pub fn rest(&self) -> Result<Synchronised> {
        let mut state = self.lock();
        let recorder = state.recorder.clone();
        let _span = recorder.span("wait for the end", Phase::Host);
        state.engine.finish()?;
        let reports = state.receive()?;
        state.early.extend(reports);
        Synchronised::after(|| state.engine.wait())
    }

    /// Waits until the device is idle.
    pub fn wait(&self) -> Result<()> {
        self.lock().engine.wait()
    }

    /// Calls `look` with the engine.
    pub fn with<T>(&self, look: impl FnOnce(&dyn Instrumented) -> T) -> T {
        look(self.lock().engine.as_ref())
    }

    /// See [`Instrumented::device_clock`].
    pub fn device_clock(&self) -> Option<DeviceClock> {
        self.lock().engine.device_clock()
    }

    /// Returns the sums since the recorder was set.
    pub(super) fn sums(&self) -> Sums {
        self.lock().sums
    }

    /// See [`State::clock_check`].
    pub fn take_clock_check(&self) -> Vec<[f64; 2]> {
        std::mem::take(&mut self.lock().clock_check)
    }

    /// See [`Instrumented::counters`].
    pub fn counters(&self) -> Counters {
        self.lock().engine.counters()
    }
}

impl State {
    /// Polls finished steps and records them.
    fn receive(&mut self) -> Result<Vec<Report>> {
        let reports = self.engine.poll()?;
        self.record_timings();
        for report in &reports {
            match report {
                Report::Step(done) => self.record_step(done),
                Report::Densify(_) => self.sums.rounds += 1,
                _ => {}
            }
        }
        Ok(reports)
    }

    fn record_step(&mut self, done: &StepReport) {
        let recorder = &self.recorder;
        if !recorder.is_on() {
            return;
        }
        let (step, counts) = (u64::from(done.step), &done.counts);
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
        let counted = self.engine.counted();
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
        if let (false, Some(&[begin, end])) = (self.engine.has_queue(), begun) {
            let mut at = begin;
            for time in &done.stages {
                let span = Span::new(time.stage.name(), at, time.duration_ns)
                    .phase(phase_of(time.stage.name()))
                    .step(step);
                at += time.duration_ns as i64;
                recorder.add_span(Track::Host, span);
            }
            recorder.end_step_at(step, end);
        }
        self.begun.remove(&done.step);
    }

    /// Passes spans of the device to the recorder.
    fn record_timings(&mut self) {
        let Some(clock) = self.engine.device_clock() else {
            return;
        };
        let offset = self.recorder.offset_of(clock.origin);
        for done in self.engine.timings() {
            self.submissions += 1;
            let step = u64::from(done.step);
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

impl Engine for Probe {
    fn description(&self) -> String {
        self.lock().engine.description()
    }

    fn device_handle(&self) -> Option<Box<dyn Any>> {
        self.lock().engine.device_handle()
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        self.lock().engine.upload(splats, state)
    }

    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        self.lock().engine.download()
    }

    fn most_gaussians(&self, sh_degree: u8) -> Option<usize> {
        self.lock().engine.most_gaussians(sh_degree)
    }

    fn splats(&mut self) -> Result<Splats> {
        self.lock().engine.splats()
    }

    fn view_state(&mut self) -> Result<ViewState> {
        self.lock().engine.view_state()
    }

    fn fused_splats(&mut self) -> Result<Splats> {
        self.lock().engine.fused_splats()
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        let mut state = self.lock();
        let sizes = views.iter().map(|view| &view.camera);
        let pixels = sizes.map(|c| u64::from(c.width) * u64::from(c.height));
        state.pixels.extend(pixels.collect::<Vec<_>>());
        state.engine.add_views(views)
    }

    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        let mut state = self.lock();
        let pixels = |c: &Camera| u64::from(c.width) * u64::from(c.height);
        state.pixels.extend(cameras.iter().map(pixels));
        state.engine.add_cameras(cameras)
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.lock().engine.put_photo(view, photo)
    }

    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        self.lock().engine.announce(view, photo)
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        self.lock().engine.render(camera, settings)
    }

    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        self.lock().engine.render_bytes(camera, settings)
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        self.lock().engine.blend_counts(camera, settings)
    }

    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        let mut state = self.lock();
        state.engine.score(camera, settings, photo, asks)
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        let mut state = self.lock();
        let recorder = state.recorder.clone();
        let step = u64::from(settings.step);
        let on_host = !state.engine.has_queue();
        let span = recorder.span(if on_host { "step" } else { "enqueue" }, Phase::Host);
        let span = span.step(step);
        // Inside the span, so that it contains the stages.
        let begin = recorder.now_ns();
        state.engine.step(view, settings)?;
        if state.waits_for_steps {
            state.engine.wait()?;
            recorder.end_step(step);
        }
        drop(span);
        if recorder.is_on() {
            state.sums.work.sh_degree = settings.render.sh_degree;
            state.sums.work.ssim = settings.losses[LossTerm::Ssim] > 0.0;
            state.view_of_step.insert(settings.step, view.0);
            let end = recorder.now_ns();
            state.begun.insert(settings.step, [begin, end]);
        }
        Ok(())
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        let mut state = self.lock();
        let recorder = state.recorder.clone();
        let (name, phase) = match state.engine.has_queue() {
            false => (Stage::Densify.name(), Phase::Update),
            true => ("enqueue density control", Phase::Host),
        };
        let _span = recorder.span(name, phase).step(u64::from(plan.step));
        state.engine.densify(plan)
    }

    fn finish(&mut self) -> Result<()> {
        self.lock().engine.finish()
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        let mut state = self.lock();
        let recorder = state.recorder.clone();
        let _span = recorder.span("poll", Phase::Host);
        let mut reports: Vec<Report> = state.early.drain(..).collect();
        reports.extend(state.receive()?);
        Ok(reports)
    }

    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        let mut state = self.lock();
        state.engine.supervise_depth(view, samples)
    }

    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        self.lock().engine.set_crop_loss(loss)
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>> {
        let mut state = self.lock();
        state.engine.differentiate(camera, settings, derivative)
    }
    fn blend_gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
    ) -> Result<BlendGradients> {
        let mut state = self.lock();
        state.engine.blend_gradients(camera, settings, dl_drgb)
    }
}
