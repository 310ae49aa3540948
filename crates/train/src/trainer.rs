//! Drives an engine through a run.
//!
//! 1. Split the capture, make the first Gaussians, hand photos and Gaussians to the engine.
//! 2. Each step: ask the schedule for the numbers, enqueue the step and the density control that
//!    follows it, collect the reports of what has finished.
//! 3. Score held-out photos when the schedule says so, and at the end.
//! 4. Stop early when the observer asks, when a loss is not finite, or when no Gaussian is left.
//! 5. On an engine with a queue, copy the splats to the host now and then: a device may be lost.
//!    When the engine fails, the run ends with the splats that it still has, or else with that copy.
//!
//! The trainer waits for the engine only to score, to copy and at the end.

use crate::clock::Clock;
use crate::history::Smoothed;
use crate::views::{check_view, choose_views, notes_on};
use crate::{
    Ending, EvalReport, EvalRow, History, LossRow, Observer, Outcome, Schedule, Silent,
    StepProgress, TrainConfig, ViewOrder, evaluate, init, strategy,
};
use dapple_engine::{Engine, Rendered, Report, StepReport, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Error, Result, Splats, View};
use std::time::Instant;

/// The near plane, where the configuration leaves it open, as a fraction of the scene's extent.
/// Gaussians right before a camera are fog in that photo and noise in all others: on `bird` they
/// cost single held-out photos 15 dB.
const NEAR_FRACTION: f64 = 0.05;

/// A run: an engine, its views, and how far it is.
pub struct Trainer {
    engine: Box<dyn Engine>,
    config: TrainConfig,
    schedule: Schedule,
    order: ViewOrder,
    view_ids: Vec<ViewId>,
    eval_views: Vec<View>,
    /// Steps enqueued, and those whose reports are in.
    step: u32,
    reported: u32,
    gaussians: u64,
    history: History,
    smoothed_loss: Smoothed,
    clock: Clock,
    notes: Vec<String>,
    /// Why the run cannot go on, though the engine could.
    bad_end: Option<Ending>,
    /// Whether a step was ever enqueued and not done: then there is a device that may be lost.
    has_queue: bool,
    snapshot: Option<Snapshot>,
    last_snapshot: Instant,
    failure: Option<Error>,
}

/// A copy of the splats.
struct Snapshot {
    /// Steps that went into them.
    step: u32,
    splats: Splats,
}

impl Trainer {
    /// Prepares a run: checks the capture, makes the first Gaussians and hands everything to the
    /// engine.
    ///
    /// # Errors
    /// A configuration that contradicts itself, a capture that cannot be trained on (a single
    /// photo, none left after the split, a distorted camera, points that are lost), what the engine
    /// refuses.
    pub fn new(
        dataset: &Dataset,
        mut config: TrainConfig,
        mut engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        config.validate()?;
        let (train, eval) = choose_views(dataset, &config)?;
        for &index in train.iter().chain(&eval) {
            check_view(&dataset.views[index])?;
        }
        let extent = dataset.extent(&train);
        if !extent.is_finite() {
            return Err(Error::input("the cameras are not all at finite positions")
                .hint("the poses of this capture are broken: make them again"));
        }
        if config.near == 0.0 {
            config.near = NEAR_FRACTION * extent;
        }
        settle_budget(&mut config, dataset, &train);
        let splats = init::initial_splats(dataset, &train, extent, &config)?;
        let view_ids = engine.add_views(
            train
                .iter()
                .map(|&i| TrainView {
                    camera: dataset.views[i].camera,
                    photo: dataset.views[i].photo.clone(),
                })
                .collect(),
        )?;
        engine.upload(&splats, None)?;
        let history = History {
            seconds: crate::Seconds {
                setup: started.elapsed().as_secs_f64(),
                ..crate::Seconds::default()
            },
            ..History::default()
        };
        Ok(Self {
            schedule: Schedule::new(config.clone(), extent),
            order: ViewOrder::new(config.seed, view_ids.len()),
            view_ids,
            eval_views: eval.iter().map(|&i| dataset.views[i].clone()).collect(),
            step: 0,
            reported: 0,
            gaussians: splats.len() as u64,
            history,
            smoothed_loss: Smoothed::over(50.0),
            clock: Clock::new(),
            notes: notes_on(dataset, eval.len(), splats.len()),
            bad_end: None,
            has_queue: false,
            snapshot: None,
            last_snapshot: Instant::now(),
            failure: None,
            engine,
            config,
        })
    }

    /// One training step, with the density control that follows it.
    ///
    /// # Errors
    /// What the engine cannot do; a loss that is not finite; no Gaussian left.
    pub fn step(&mut self) -> Result<()> {
        self.advance(&mut Silent)?;
        self.bad_end.and_then(Ending::error).map_or(Ok(()), Err)
    }

    /// Runs to the last step of the configuration and scores the held-out photos. Can be called
    /// again after a stop: it goes on where it was.
    ///
    /// # Errors
    /// What the engine cannot do, if nothing of the run can be saved. A run that ends badly is not
    /// an error here, so that what there is can be saved: see [`Outcome::ending`].
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        if let (Some(_), Some(kept)) = (&self.failure, &self.snapshot) {
            return Ok(kept.outcome());
        }
        let result = self.run_to_the_end(observer);
        self.clock.pause();
        result.or_else(|error| self.rescue(error, observer))
    }

    fn run_to_the_end(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut ending = Ending::Finished;
        while self.step < self.config.last_step() && self.bad_end.is_none() {
            if observer.should_stop() {
                ending = Ending::Stopped(self.step);
                break;
            }
            self.advance(observer)?;
            let last = self.step >= self.config.last_step();
            let score =
                !last && self.schedule.evaluates_at(self.step) && !self.eval_views.is_empty();
            if self.has_queue && !last && (score || self.snapshot_is_due()) {
                self.drain(observer)?;
                self.copy()?;
            }
            if score && self.bad_end.is_none() {
                let report = self.evaluate()?;
                observer.on_eval(self.step, &report);
            }
        }
        self.drain(observer)?;
        self.gaussians = self.copy()? as u64;
        // The last round of density control may have reported since.
        self.collect(observer)?;
        ending = self.bad_end.unwrap_or(ending);
        let mut eval = None;
        if ending.is_good() && !self.eval_views.is_empty() {
            let report =
                self.evaluate_each(&mut |view, rendered| observer.on_final_render(view, rendered))?;
            observer.on_eval(self.step, &report);
            eval = Some(report);
        }
        Ok(Outcome {
            ending,
            steps: self.step,
            gaussians: self.gaussians,
            eval,
        })
    }

    /// Ends a run whose engine has failed with the best splats there are.
    fn rescue(&mut self, error: Error, observer: &mut dyn Observer) -> Result<Outcome> {
        // The device may still answer: then nothing is lost.
        if let Ok(splats) = self.engine.splats()
            && !splats.is_empty()
        {
            // Of these reports only the steps matter now.
            let _ = self.collect(observer);
            self.snapshot = Some(Snapshot {
                step: self.reported,
                splats,
            });
        }
        let Some(kept) = &self.snapshot else {
            return Err(error);
        };
        self.gaussians = kept.splats.len() as u64;
        self.failure = Some(error);
        Ok(kept.outcome())
    }

    /// Scores the held-out photos with the present splats.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        self.evaluate_each(&mut |_, _| Ok(()))
    }

    /// Scores the held-out photos and shows each rendered view to `on_render`.
    pub fn evaluate_each(
        &mut self,
        on_render: &mut dyn FnMut(&View, &Rendered) -> Result<()>,
    ) -> Result<EvalReport> {
        // Waiting for steps is training.
        self.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        let views: Vec<&View> = self.eval_views.iter().collect();
        let report = evaluate(self.engine.as_mut(), &views, &settings, on_render)?;
        self.history.seconds.eval += started.elapsed().as_secs_f64();
        self.history.evals.push(EvalRow {
            step: self.step,
            psnr: report.psnr,
            ssim: report.ssim,
            gaussians: report.gaussians,
            train_seconds: self.history.seconds.train,
        });
        Ok(report)
    }

    /// The present splats; after the engine has failed, those that were saved from it.
    pub fn splats(&mut self) -> Result<Splats> {
        if let (Some(_), Some(kept)) = (&self.failure, &self.snapshot) {
            return Ok(kept.splats.clone());
        }
        self.drain(&mut Silent)?;
        self.engine.splats()
    }

    /// What made the engine fail, when a run has ended with [`Ending::Failed`].
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Waits until every step that was enqueued is done.
    pub fn wait(&mut self) -> Result<()> {
        self.drain(&mut Silent)
    }

    /// Renders the present splats as scoring does.
    pub fn render(&mut self, camera: &Camera) -> Result<Rendered> {
        let settings = self.schedule.render_settings();
        self.engine.render(camera, &settings)
    }

    /// Steps done, or enqueued on an engine that has a queue.
    pub fn steps_done(&self) -> u32 {
        self.step
    }

    /// Gaussians, as far as is known without waiting for the engine.
    pub fn gaussians(&self) -> u64 {
        self.gaussians
    }

    /// The configuration of this run.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The numbers of each step.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What happened so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The engine and its device, for people.
    pub fn device(&self) -> String {
        self.engine.description()
    }

    /// Number of views trained on.
    pub fn train_view_count(&self) -> usize {
        self.view_ids.len()
    }

    /// The held-out views.
    pub fn eval_views(&self) -> &[View] {
        &self.eval_views
    }

    /// Remarks for the user: what of this run is not as they may expect.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The engine, for calls the trainer has no word for.
    pub fn engine_mut(&mut self) -> &mut dyn Engine {
        self.engine.as_mut()
    }

    /// Enqueues one step and takes in what has finished.
    fn advance(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.clock.resume();
        let step = self.step + 1;
        let view = self.view_ids[self.order.view_at(step)];
        self.engine.step(view, &self.schedule.step_settings(step))?;
        if let Some(plan) = self.schedule.densify_plan(step) {
            self.engine.densify(&plan)?;
        }
        self.step = step;
        self.collect(observer)?;
        self.has_queue |= self.reported < self.step;
        self.stop_the_clock();
        Ok(())
    }

    /// Waits until every step has reported. That is training time too.
    fn drain(&mut self, observer: &mut dyn Observer) -> Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        self.clock.resume();
        self.engine.finish()?;
        self.collect(observer)?;
        self.stop_the_clock();
        if self.reported < self.step {
            return Err(Error::internal(format!(
                "the engine has not reported step {}",
                self.reported + 1
            )));
        }
        Ok(())
    }

    fn stop_the_clock(&mut self) {
        self.clock.pause();
        self.history.seconds.train = self.clock.seconds();
    }

    fn snapshot_is_due(&self) -> bool {
        let every = 60.0 * self.config.snapshot_minutes;
        every > 0.0 && self.last_snapshot.elapsed().as_secs_f64() >= every
    }

    /// Copies the splats to the host, to be kept if the device may be lost; gives their number.
    fn copy(&mut self) -> Result<usize> {
        let started = Instant::now();
        let splats = self.engine.splats()?;
        let count = splats.len();
        if self.has_queue {
            self.snapshot = Some(Snapshot {
                step: self.step,
                splats,
            });
        }
        self.last_snapshot = Instant::now();
        self.history.seconds.snapshots += started.elapsed().as_secs_f64();
        Ok(count)
    }

    /// Takes in what has finished.
    fn collect(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let reports = self.engine.poll()?;
        let is_step = |report: &&Report| matches!(report, Report::Step(_));
        self.clock.arrived(reports.iter().filter(is_step).count());
        for report in reports {
            match report {
                Report::Step(done) => self.take_step(&done, observer),
                Report::Densify(done) => {
                    self.gaussians = done.total;
                    if done.total == 0 {
                        self.bad_end.get_or_insert(Ending::NoGaussians(done.step));
                    }
                    self.history.densify.push(done);
                    observer.on_densify(&done);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_step(&mut self, done: &StepReport, observer: &mut dyn Observer) {
        self.reported = done.step;
        self.gaussians = done.counts.gaussians;
        self.history.cap.take(&done.counts);
        if !done.loss.is_finite() {
            self.bad_end.get_or_insert(Ending::NonFiniteLoss(done.step));
        }
        self.smoothed_loss.push(f64::from(done.loss));
        let progress = self.progress(done.step, done.loss);
        self.history.losses.push(LossRow {
            step: done.step,
            loss: done.loss,
            gaussians: done.counts.gaussians,
            steps_per_second: progress.steps_per_second,
        });
        observer.on_step(&progress);
    }

    fn progress(&self, step: u32, loss: f32) -> StepProgress {
        let steps = self.config.last_step();
        let seconds = self.clock.seconds_per_step();
        StepProgress {
            step,
            steps,
            loss,
            smoothed_loss: self.smoothed_loss.mean() as f32,
            gaussians: self.gaussians,
            steps_per_second: if seconds > 0.0 { 1.0 / seconds } else { 0.0 },
            eta_seconds: seconds * f64::from(steps.saturating_sub(step)),
        }
    }
}

/// Names the budget of a strategy that needs one and was given none: the configuration keeps it.
fn settle_budget(config: &mut TrainConfig, dataset: &Dataset, train: &[usize]) {
    if config.max_gaussians == 0 && config.densify.strategy.has_budget() {
        let pixels = |&i: &usize| {
            let camera = &dataset.views[i].camera;
            u64::from(camera.width) * u64::from(camera.height)
        };
        let first = match config.initial_gaussians {
            0 => dataset.points.len(),
            n => n,
        };
        config.max_gaussians =
            strategy::default_budget(train.iter().map(pixels).sum(), first as u64);
    }
}

impl Snapshot {
    /// Of the run that has come to this copy.
    fn outcome(&self) -> Outcome {
        Outcome {
            ending: Ending::Failed(self.step),
            steps: self.step,
            gaussians: self.splats.len() as u64,
            eval: None,
        }
    }
}
