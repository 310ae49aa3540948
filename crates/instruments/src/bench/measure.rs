//! Times training steps of any engine.
//!
//! 1. Some steps that are not timed: buffers grow, kernels compile, caches and clocks warm up.
//! 2. An engine that is done when `step` returns: each step is timed, and its report has the stages.
//! 3. An engine with a queue: [`SEQUENCES`] sequences of steps are enqueued, and the device is idle before and after
//!    each. A step's time is the sequence's divided by its steps. The host's calls to the device during the sequence
//!    are counted.
//! 4. Stages of such an engine are timed by its own clock, in a run of their own: timing would disturb the steps.

use super::times::Times;
use crate::{Instrumented, Open};
use dapple::contract::instruments::{Cost, Counters, Work};
use dapple::contract::{
    AppearanceMlpSettings, LearningRates, LossTerm, LossWeights, OptimizerState, RenderSettings,
    Report, Stage, StepCounts, StepFeatures, StepSettings, TrainView, ViewId,
};
use dapple::cpu::{CpuEngine, CpuOptions};
use dapple::{Camera, Engine, Photo, Result, Splats};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Sequences of steps on an engine with a queue.
pub const SEQUENCES: u32 = 5;

/// Most steps whose stages are timed on an engine with a queue.
const STAGE_STEPS: u32 = 60;

/// A request to time steps.
pub struct Job<'a> {
    /// Opens the engine.
    pub open: &'a Open<'a>,
    /// Splats at the start of training.
    pub splats: &'a Splats,
    /// Views, trained on in order and repeatedly.
    pub views: &'a [TrainView],
    /// Step sizes.
    pub learning_rates: LearningRates,
    /// Number of steps that are not timed.
    pub warm_up: u32,
    /// Number of steps that are timed after them.
    pub steps: u32,
    /// Near plane, world units.
    pub near: f32,
    /// Initial state and settings of the appearance MLP; `None` = the run has none.
    pub appearance_mlp: Option<(&'a OptimizerState, AppearanceMlpSettings)>,
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("gaussians", &self.splats.len())
            .field("views", &self.views.len())
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

/// Measured times and counts.
#[derive(Debug)]
pub struct Measured {
    /// Times of single steps, or of sequences divided by their steps.
    pub step: Times,
    /// Steps that each time is a mean over.
    pub steps_per_time: u32,
    /// Stages in the order they ran.
    pub stages: Vec<MeasuredStage>,
    /// Mean work over the views.
    pub work: Work,
    /// Counts per step, for an engine with a queue.
    pub host: Option<HostPerStep>,
}

/// Times and cost of one stage.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredStage {
    /// The stage.
    pub stage: Stage,
    /// Measured times.
    pub times: Times,
    /// Least cost of the stage, by the engine's own formula.
    pub cost: Cost,
}

/// Calls of the host to the device, per step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct HostPerStep {
    /// Submissions of work to the queue.
    pub submissions: f64,
    /// Dispatches of kernels.
    pub dispatches: f64,
    /// Waits of the host for the device.
    pub waits: f64,
    /// Copies between host and device, either way.
    pub copies: f64,
    /// Bytes from host to device.
    pub bytes_written: f64,
    /// Bytes from device to host.
    pub bytes_read: f64,
    /// Buffers that the driver made.
    pub buffers_created: f64,
}

impl HostPerStep {
    /// Divides the counts by `steps`.
    pub fn new(counted: Counters, steps: u32) -> Self {
        let each = |count: u64| count as f64 / f64::from(steps.max(1));
        Self {
            submissions: each(counted.submissions),
            dispatches: each(counted.dispatches),
            waits: each(counted.waits),
            copies: each(counted.copies),
            bytes_written: each(counted.bytes_written),
            bytes_read: each(counted.bytes_read),
            buffers_created: each(counted.buffers_created),
        }
    }

    /// Formats the counts on a line for the user.
    pub fn line(&self) -> String {
        format!(
            "host      per step: {} waits, {} copies ({:.0} B read, {:.0} B written), {} buffers made, \
             {} submissions, {} dispatches",
            short(self.waits),
            short(self.copies),
            self.bytes_read,
            self.bytes_written,
            short(self.buffers_created),
            short(self.submissions),
            short(self.dispatches)
        )
    }
}

/// Formats a count per step: a whole number, or with as many digits as show it.
fn short(count: f64) -> String {
    if count == count.round() {
        format!("{count:.0}")
    } else {
        format!("{count:.3}")
    }
}

/// Returns a photo with small changes, so that the loss has a gradient everywhere.
pub fn changed(photo: Photo) -> Photo {
    let bytes = photo.rgb.iter().enumerate().map(|(i, value)| {
        let ripple = 0.02 * ((i / 3 % 7) as f32 - 3.0) / 3.0;
        let value = f32::from(*value) / 255.0;
        ((0.95 * value + 0.02 + ripple).clamp(0.0, 1.0) * 255.0).round() as u8
    });
    Photo::from_rgb(photo.width, photo.height, bytes.collect())
}

/// Runs steps 1 to 4.
///
/// # Errors
/// The engine fails.
pub fn measure(job: &Job<'_>) -> Result<Measured> {
    let mut run = Run::start(job, false)?;
    for _ in 0..job.warm_up {
        run.step()?;
    }
    run.finish()?;
    if run.engine.has_queue() {
        run.in_sequences(job)
    } else {
        run.one_by_one(job)
    }
}

/// An engine that runs steps.
struct Run<'a> {
    engine: Box<dyn Instrumented>,
    job: &'a Job<'a>,
    ids: Vec<ViewId>,
    /// Steps enqueued and reported.
    enqueued: u32,
    reported: u32,
    /// Counts of the last step of each view.
    counts: Vec<StepCounts>,
    stages: Vec<(Stage, Vec<u64>)>,
}

impl<'a> Run<'a> {
    fn start(job: &'a Job<'a>, time_stages: bool) -> Result<Self> {
        let mut engine = (job.open)(time_stages)?.into_instrument();
        let ids = engine.add_views(job.views.to_vec())?;
        engine.upload(job.splats, job.appearance_mlp.map(|(state, _)| state))?;
        Ok(Self {
            engine,
            job,
            counts: vec![StepCounts::default(); ids.len()],
            ids,
            enqueued: 0,
            reported: 0,
            stages: Vec::new(),
        })
    }

    fn step(&mut self) -> Result<()> {
        let settings = settings(self.job, self.enqueued + 1);
        let view = self.ids[self.enqueued as usize % self.ids.len()];
        self.engine.step(view, &settings)?;
        self.enqueued += 1;
        Ok(())
    }

    /// Waits for all reports. The device may repeat steps whose buffers were too small.
    fn finish(&mut self) -> Result<()> {
        self.engine.finish()?;
        self.collect()?;
        self.engine.wait()
    }

    /// Processes the available reports and returns their number.
    fn collect(&mut self) -> Result<u32> {
        let before = self.reported;
        for report in self.engine.poll()? {
            let Report::Step(done) = report else {
                continue;
            };
            let views = self.counts.len();
            self.counts[(done.step.saturating_sub(1)) as usize % views] = done.counts;
            for time in done.stages {
                match self.stages.iter_mut().find(|(s, _)| *s == time.stage) {
                    Some((_, all)) => all.push(time.duration_ns),
                    None => self.stages.push((time.stage, vec![time.duration_ns])),
                }
            }
            self.reported = done.step;
        }
        Ok(self.reported - before)
    }

    /// Returns the times of each stage with its cost for this work, and clears them.
    fn take_stages(&mut self, work: &Work) -> Vec<MeasuredStage> {
        let stages = std::mem::take(&mut self.stages).into_iter();
        let measured = stages.map(|(stage, ns)| MeasuredStage {
            stage,
            times: Times::from_ns(&ns),
            cost: self.engine.cost(stage, work).unwrap_or_default(),
        });
        measured.collect()
    }

    fn one_by_one(mut self, job: &Job<'_>) -> Result<Measured> {
        self.stages.clear();
        let mut durations_ns = Vec::new();
        let mut rows = 0;
        for _ in 0..job.steps {
            let started = Instant::now();
            self.step()?;
            durations_ns.push(started.elapsed().as_nanos() as u64);
            self.collect()?;
            rows += self.engine.counted().map_or(0, |work| work.row_visits);
        }
        let row_visits = rows / u64::from(job.steps.max(1));
        let work = self.work(row_visits);
        Ok(Measured {
            step: Times::from_ns(&durations_ns),
            steps_per_time: 1,
            stages: self.take_stages(&work),
            work,
            host: None,
        })
    }

    fn in_sequences(mut self, job: &Job<'_>) -> Result<Measured> {
        let mut durations_ns = Vec::new();
        let mut host = None;
        for _ in 0..SEQUENCES {
            let before = self.engine.counters();
            let started = Instant::now();
            for _ in 0..job.steps {
                self.step()?;
            }
            let asked = self.engine.counters();
            self.engine.wait()?;
            let nanoseconds = started.elapsed().as_nanos() as u64;
            durations_ns.push(nanoseconds / u64::from(job.steps));
            host = Some(HostPerStep::new(asked - before, job.steps));
            self.finish()?;
        }
        let step = Times::from_ns(&durations_ns);
        let mut work = self.work(0);
        drop(self);
        work.row_visits = row_visits(job)?;
        Ok(Measured {
            step,
            steps_per_time: job.steps,
            stages: stages(job, &work)?,
            work,
            host,
        })
    }

    fn work(&self, row_visits: u64) -> Work {
        let views = self.counts.len() as u64;
        let mean = |of: fn(&StepCounts) -> u64| self.counts.iter().map(of).sum::<u64>() / views;
        let cameras = self.job.views.iter().map(|view| &view.camera);
        let pixels = cameras.map(|c| u64::from(c.width) * u64::from(c.height));
        Work {
            gaussians: mean(|c| c.gaussians),
            visible: mean(|c| c.visible),
            instances: mean(|c| c.instances),
            row_visits,
            pixels: pixels.sum::<u64>() / views,
            tiles: mean(|c| c.tiles),
            sh_degree: self.job.splats.sh_degree,
            ssim: true,
        }
    }
}

/// Returns the settings of step `step`.
fn settings(job: &Job<'_>, step: u32) -> StepSettings {
    let render = RenderSettings {
        sh_degree: job.splats.sh_degree,
        near: job.near,
        ..RenderSettings::default()
    };
    StepSettings {
        learning_rates: job.learning_rates,
        losses: LossWeights::default().with(LossTerm::Ssim, 0.2),
        accumulate_density: true,
        features: StepFeatures {
            appearance_mlp: job.appearance_mlp.map(|(_, settings)| settings),
            ..StepFeatures::default()
        },
        ..StepSettings::new(step, render)
    }
}

/// Measures the stage times of an engine with a queue.
fn stages(job: &Job<'_>, work: &Work) -> Result<Vec<MeasuredStage>> {
    let mut run = Run::start(job, true)?;
    for _ in 0..job.warm_up {
        run.step()?;
    }
    run.finish()?;
    run.stages.clear();
    for _ in 0..job.steps.min(STAGE_STEPS) {
        run.step()?;
    }
    run.finish()?;
    Ok(run.take_stages(work))
}

/// Returns the number of 16-pixel rows that a step must visit, mean over the views. GPUs do not count them, the CPU
/// engine does.
fn row_visits(job: &Job<'_>) -> Result<u64> {
    let mut engine = CpuEngine::new(CpuOptions::default())?;
    let ids = engine.add_views(job.views.to_vec())?;
    engine.upload(job.splats, None)?;
    let mut rows = 0;
    for (step, id) in (1..).zip(&ids) {
        let settings = StepSettings {
            learning_rates: standing_still(),
            features: StepFeatures::default(),
            ..settings(job, step)
        };
        engine.step(*id, &settings)?;
        rows += engine.work().row_visits;
    }
    Ok(rows / ids.len().max(1) as u64)
}

/// Returns step sizes too small to change a parameter, so that every step is the same.
pub fn standing_still() -> LearningRates {
    // Adam's steps are about as long as the learning rate, which is below the rounding of a parameter here.
    let rate = 1e-12;
    LearningRates {
        means: rate,
        scales: rate,
        quats: rate,
        opacities: rate,
        sh0: rate,
        sh_rest: rate,
    }
}

/// Returns a training view with this camera and photo.
pub fn view_of(camera: Camera, photo: Photo) -> TrainView {
    TrainView {
        camera,
        photo: Arc::new(photo),
    }
}
