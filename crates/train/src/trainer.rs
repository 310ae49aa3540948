//! Drives an engine through a run.
//!
//! 1. Split the capture, make the first Gaussians, hand photos and Gaussians to the engine.
//! 2. Each step: ask the schedule for the numbers, enqueue the step and the density control that
//!    follows it, collect the reports of what has finished.
//! 3. Score held-out photos when the schedule says so, and at the end.
//! 4. Stop early when the observer asks, when the loss or Gaussians are not finite (see
//!    [`mod@crate::broken`]), or when no Gaussian is left.
//! 5. Look at the photos that are set aside, where some are, and end with the best splats:
//!    [`mod@crate::watch`].
//! 6. Make a checkpoint when one is due and when the run is stopped: see [`crate::saving`].
//!
//! The trainer waits for the engine only to score, for checkpoints and at the end.

mod scoring;
mod steps;

use crate::clock::Clock;
use crate::evaluate::Lpips;
use crate::history::Smoothed;
use crate::loader::{PhotoLoader, PhotoTraffic};
use crate::saving::Saving;
use crate::time_budget::Pacer;
use crate::views::{Chosen, notes_on};
use crate::watch::Watch;
use crate::{
    Budget, CaptureIdentity, Ending, Evidence, History, Launch, Observer, Outcome, Schedule,
    Silent, Strategy, TrainConfig, ViewOrder, WatchReport, depth, init, strategy,
};
use dapple_engine::{Appearance, Engine, Rendered, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Error, Result, Splats, View};
use std::time::Instant;

/// The near plane, where the configuration leaves it open, as a fraction of the scene's extent.
/// Gaussians right before a camera are fog in that photo and noise in all others: on `bird` they
/// cost single held-out photos 15 dB.
const NEAR_FRACTION: f64 = 0.05;

/// A run: an engine, its views, and how far it is.
pub struct Trainer {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) config: TrainConfig,
    pub(crate) schedule: Schedule,
    order: ViewOrder,
    /// The same, some steps ahead.
    announced: ViewOrder,
    view_ids: Vec<ViewId>,
    /// Where not all photos are in memory.
    pub(crate) loader: Option<PhotoLoader>,
    train_names: Vec<String>,
    eval_views: Vec<View>,
    /// As [`Dataset::skipped`].
    skipped: usize,
    /// For the last scoring.
    lpips: Option<Lpips>,
    /// The photos trained on, as they were given.
    pub(crate) cameras: Vec<(String, Camera)>,
    /// Steps enqueued, and those whose reports are in.
    pub(crate) step: u32,
    pub(crate) reported: u32,
    pub(crate) gaussians: u64,
    pub(crate) history: History,
    pub(crate) smoothed_loss: Smoothed,
    pub(crate) clock: Clock,
    pub(crate) notes: Vec<String>,
    /// Why the run cannot go on, though the engine could.
    pub(crate) bad_end: Option<Ending>,
    /// Whether a step was ever enqueued and not done: then there is a device that may be lost.
    pub(crate) has_queue: bool,
    pub(crate) saving: Saving,
    pub(crate) watch: Watch,
    stop_at: Option<u32>,
    pub(crate) pacer: Option<Pacer>,
}

impl Trainer {
    /// Prepares a run: checks the capture, makes the first Gaussians and hands everything to the
    /// engine.
    ///
    /// # Errors
    /// A configuration that contradicts itself, a capture that cannot be trained on (a single
    /// photo, none left after the split, a lens that is none, points that are lost), what the engine
    /// refuses.
    pub fn new(
        dataset: &Dataset,
        mut config: TrainConfig,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        config.validate()?;
        let chosen = Chosen::of(dataset, &config)?;
        if config.near == 0.0 {
            config.near = NEAR_FRACTION * chosen.extent;
        }
        let budget = settle_budget(&mut config, dataset, &chosen.train, engine.as_ref())?;
        let splats = init::initial_splats(dataset, &chosen.train, chosen.extent, &config)?;
        if config.densify.strategy == Strategy::Mcmc && config.densify.add == 0.0 {
            config.densify.add = strategy::growth(&config, splats.len() as u64);
        }
        let mut trainer = Self::with_views(dataset, config, engine, &chosen, 0)?;
        trainer.engine.upload(&splats, None)?;
        trainer.gaussians = splats.len() as u64;
        trainer.saving.begin_with(0, &splats);
        let notes = notes_on(dataset, &trainer.config, chosen.eval.len(), splats.len());
        trainer.notes.extend(notes);
        trainer.history.budget = budget;
        trainer.history.seconds.setup = started.elapsed().as_secs_f64();
        Ok(trainer)
    }

    /// After `step` steps, its engine without splats.
    pub(crate) fn with_views(
        dataset: &Dataset,
        config: TrainConfig,
        mut engine: Box<dyn Engine>,
        chosen: &Chosen,
        step: u32,
    ) -> Result<Self> {
        // Before anything takes time: better to fail now than after an hour.
        let lpips = config.read_lpips()?;
        let train: Vec<&View> = chosen.train.iter().map(|&i| &dataset.views[i]).collect();
        let order = ViewOrder::new(config.seed, train.len());
        let (view_ids, loader) = match dataset.photo_memory_bytes {
            Some(budget) => {
                let cameras: Vec<Camera> = train.iter().map(|view| view.camera).collect();
                let photos = train.iter().map(|view| view.photo.clone()).collect();
                let steps = (step + 1, config.last_step());
                let view_ids = engine.add_cameras(&cameras)?;
                let loader = PhotoLoader::start(photos, &order, budget, steps)?;
                (view_ids, Some(loader))
            }
            None => (engine.add_views(held(&train)?)?, None),
        };
        let known = depth::supervision(dataset, &chosen.train, chosen.extent, &config)?;
        let (samples, notes) = known;
        for (&view, samples) in view_ids.iter().zip(samples) {
            engine.supervise_depth(view, samples)?;
        }
        let eval = chosen.eval.iter();
        let name = |&i: &usize| dataset.views[i].name.clone();
        Ok(Self {
            schedule: Schedule::new(config.clone(), chosen.extent),
            announced: order.clone(),
            order,
            view_ids,
            loader,
            train_names: chosen.train.iter().map(name).collect(),
            eval_views: eval.map(|&i| dataset.views[i].clone()).collect(),
            skipped: dataset.skipped,
            lpips,
            cameras: chosen
                .train
                .iter()
                .map(|&i| (dataset.views[i].name.clone(), dataset.views[i].camera))
                .collect(),
            step,
            reported: step,
            gaussians: 0,
            history: History::default(),
            smoothed_loss: Smoothed::over(50.0),
            clock: Clock::at(0.0),
            notes,
            bad_end: None,
            has_queue: false,
            saving: Saving::new(CaptureIdentity::of(dataset)),
            watch: Watch::new(
                chosen
                    .watch
                    .iter()
                    .map(|&i| dataset.views[i].clone())
                    .collect(),
                &config,
            ),
            stop_at: None,
            pacer: None,
            engine,
            config,
        })
    }

    /// Ends the run after this step with [`Ending::Stopped`], as if the observer had asked for it: the
    /// schedule stays that of the whole run. `None` lets it go to the end.
    pub fn stop_at(&mut self, step: Option<u32>) {
        self.stop_at = step;
    }

    /// Notes in checkpoints how the run was started.
    pub fn set_launch(&mut self, launch: Launch) {
        self.saving.launch = launch;
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
        if let Some(outcome) = self.saving.failed_outcome() {
            return Ok(outcome);
        }
        let result = self.run_to_the_end(observer);
        self.clock.pause();
        result.or_else(|error| self.rescue(error, observer))
    }

    fn run_to_the_end(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut ending = Ending::Finished;
        while self.step < self.config.last_step() && self.bad_end.is_none() {
            let is_there = self.stop_at.is_some_and(|stop| self.step >= stop);
            if is_there || observer.should_stop() {
                ending = Ending::Stopped(self.step);
                break;
            }
            self.advance(observer)?;
            self.keep_pace();
            let last = self.step >= self.config.last_step();
            if self.looks_now() {
                self.look(observer)?;
            }
            if !last && self.schedule.evaluates_at(self.step) && !self.eval_views.is_empty() {
                self.drain(observer)?;
                if self.bad_end.is_none() {
                    let report = self.evaluate()?;
                    observer.on_eval(self.step, &report);
                    self.copy_if_cheap()?;
                }
            }
            if !last && self.checkpoint_is_due(observer) {
                self.save(observer)?;
            }
        }
        self.drain(observer)?;
        if let Some(outcome) = self.lost() {
            return Ok(outcome);
        }
        if ending == Ending::Finished {
            if let Some(best) = self.watch.better_than_last() {
                self.engine.upload(&best.splats, None)?;
                // The engine has forgotten what it learnt. Poses are not refined beside a watch.
                self.saving.learnt = Some(best.appearance.clone());
            }
            let splats = self.copy()?;
            self.gaussians = splats.len() as u64;
            if self.bad_end.is_none() {
                observer.on_last_splats(&splats);
            }
        } else {
            // Without the scoring that follows: the whole run does not have it.
            self.save(observer)?;
        }
        // The copy may have shown what no report did.
        if let Some(outcome) = self.lost() {
            return Ok(outcome);
        }
        ending = self.bad_end.unwrap_or(ending);
        let (mut eval, mut aligned) = (None, None);
        if ending.is_good() && !self.eval_views.is_empty() {
            let report = self.evaluate_at_the_end(observer)?;
            observer.on_eval(self.step, &report);
            eval = Some(report);
            if self.config.poses.refine {
                aligned = Some(self.evaluate_aligned()?);
            }
        }
        Ok(Outcome {
            ending,
            steps: self.step,
            gaussians: self.gaussians,
            eval,
            aligned,
        })
    }

    /// Whether there is a look after this step: by its place in the schedule where the pace was changed, so
    /// that a run that its configuration repeats looks where this one did.
    fn looks_now(&self) -> bool {
        let config = &self.config;
        if config.pace.is_empty() {
            return self.watch.is_due(self.step, config.last_step());
        }
        let mut places = self.schedule.places(self.step);
        places.any(|place| self.watch.is_due(place, config.steps))
    }

    /// Looks at the photos that are set aside.
    fn look(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.drain(observer)?;
        if self.bad_end.is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        self.watch
            .look(self.step, self.engine.as_mut(), &settings)?;
        self.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(())
    }

    /// What the photos that are set aside said; `None` where none are.
    pub fn watch_report(&self) -> Option<WatchReport> {
        self.watch.report()
    }

    /// The present splats, with the 3D filters of an anti-aliased run in them: what files hold and viewers
    /// show. After the engine has failed, those that were saved from it.
    pub fn splats(&mut self) -> Result<Splats> {
        if let Some(splats) = self.saving.failed_splats() {
            return Ok(splats.clone());
        }
        self.drain(&mut Silent)?;
        self.engine.fused_splats()
    }

    /// What was learnt of the appearance of the photos in [`Self::train_names`], empty where nothing is;
    /// after the engine has failed, what was saved from it.
    pub fn appearance(&mut self) -> Result<Appearance> {
        if let Some(appearance) = self.saving.failed_appearance() {
            return Ok(appearance.clone());
        }
        self.drain(&mut Silent)?;
        self.learnt()
    }

    /// Names of the photos trained on, in the engine's order.
    pub fn train_names(&self) -> &[String] {
        &self.train_names
    }

    /// What made the engine fail, when a run has ended with [`Ending::Failed`]; and what was lost, and why it
    /// may be, when it has ended with [`Ending::NonFinite`] or [`Ending::NonFiniteLoss`].
    pub fn failure(&self) -> Option<&Error> {
        self.saving.failure.as_ref()
    }

    /// The step of the splats of such a run, or of one whose numbers were lost.
    pub(crate) fn failed_step(&self) -> Option<u32> {
        self.saving.failed_step()
    }

    /// Why the last checkpoint could not be saved, if it could not.
    pub(crate) fn take_unsaved(&mut self) -> Option<Error> {
        self.saving.unsaved.take()
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

    /// How photos were read while training, where they do not all fit into memory.
    pub fn photo_traffic(&self) -> Option<PhotoTraffic> {
        self.loader.as_ref().map(PhotoLoader::traffic)
    }

    /// Number of views trained on.
    pub fn train_view_count(&self) -> usize {
        self.view_ids.len()
    }

    /// Photos of the capture that were not there and left out: [`Dataset::skipped`].
    pub fn skipped_photos(&self) -> usize {
        self.skipped
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
}

/// Views with their photos, read now where they are not in memory.
fn held(views: &[&View]) -> Result<Vec<TrainView>> {
    let views = views.iter();
    views
        .map(|view| {
            Ok(TrainView {
                camera: view.camera,
                photo: view.photo.read()?,
            })
        })
        .collect()
}

/// Names what the configuration leaves open of how many Gaussians there are and how fast they become as many:
/// it keeps both. Returns where the most of them come from, unless they were named.
///
/// # Errors
/// A photo that cannot be read.
fn settle_budget(
    config: &mut TrainConfig,
    dataset: &Dataset,
    train: &[usize],
    engine: &dyn Engine,
) -> Result<Option<Budget>> {
    if config.max_gaussians > 0 || !config.densify.strategy.has_budget() {
        return Ok(None);
    }
    let first = match (config.initial_gaussians, dataset.points.len()) {
        (0, points) => points,
        (n, _) => n,
    };
    let fit = engine.most_gaussians(config.sh_degree);
    let budget = Evidence::of(dataset, train)?.budget(first, fit);
    config.max_gaussians = budget.gaussians;
    Ok(Some(budget))
}
