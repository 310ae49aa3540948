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

mod companion;
mod held_out;
mod onlooker;
mod photos;
mod run;
mod steps;
mod watching;

pub(crate) use companion::{Companion, Companions};
pub use onlooker::Onlooker;
pub(crate) use run::Run;

use crate::loader::PhotoTraffic;
use crate::outlook::{Asking, Outlook};
use crate::perceptual;
use crate::saving::Saving;
use crate::time_budget::Pacing;
use crate::views::{Chosen, notes_on};
use crate::watch::Watch;
use crate::{
    Budget, CaptureIdentity, DensityStrategy, Ending, Evidence, History, Observer, Outcome,
    Schedule, Silent, Strategy, TrainConfig, WatchReport, appearance, init, strategy,
};
use dapple_engine::{Engine, Rendered};
use dapple_scene::{Camera, Dataset, Error, Result, View};
use glam::DVec3;
use held_out::HeldOut;
use std::sync::Arc;
use std::time::Instant;

/// The near plane, where the configuration leaves it open, as a fraction of the scene's extent.
/// Gaussians right before a camera are fog in that photo and noise in all others: on `bird` they
/// cost single held-out photos 15 dB.
const NEAR_FRACTION: f64 = 0.05;

/// A run, and what accompanies it.
pub struct Trainer {
    pub(crate) run: Run,
    pub(crate) companions: Companions,
    pub(crate) saving: Saving,
    pub(crate) notes: Vec<String>,
    /// The name of the strategy that the run began with, where that was the caller's own and has not been
    /// given again.
    pub(crate) awaited_strategy: Option<String>,
    stop_at: Option<u32>,
    /// As [`Dataset::skipped`].
    skipped: usize,
}

impl Trainer {
    /// Prepares a run: checks the capture, makes the first Gaussians and hands everything to the
    /// engine.
    ///
    /// # Errors
    /// A configuration that contradicts itself (also one whose `steps` were set and whose schedule is that of a
    /// longer run: [`Preset::config_for`](crate::Preset::config_for) scales it), a capture that cannot be trained on (a single
    /// photo, none left after the split, a lens that is none, points that are lost), what the engine
    /// refuses.
    pub fn new(
        dataset: &Dataset,
        mut config: TrainConfig,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        config.validate()?;
        config.validate_length()?;
        let chosen = Chosen::of(dataset, &config)?;
        if config.near == 0.0 {
            config.near = NEAR_FRACTION * chosen.extent;
        }
        let budget = settle_budget(&mut config, dataset, &chosen.train, engine.as_ref())?;
        let splats = init::initial_splats(dataset, &chosen.train, chosen.extent, &config)?;
        if config.densify.strategy == Strategy::Mcmc && config.densify.add == 0.0 {
            config.densify.add = strategy::growth(&config, splats.len() as u64);
        }
        let seed = config.seed;
        let mut trainer = Self::with_views(dataset, config, engine, &chosen, 0)?;
        let looks = trainer.config().appearance.has_looks();
        let state =
            looks.then(|| appearance::first_looks(&splats, trainer.run.photos.ids.len(), seed));
        trainer.run.engine.upload(&splats, state.as_ref())?;
        trainer.saving.begin_with(0, &splats);
        let notes = notes_on(dataset, trainer.config(), chosen.eval.len(), splats.len());
        trainer.notes.extend(notes);
        let state = &mut trainer.run.state;
        state.gaussians = splats.len() as u64;
        state.history.budget = budget;
        state.history.seconds.setup = started.elapsed().as_secs_f64();
        Ok(trainer)
    }

    /// After `step` steps, its engine without splats.
    pub(crate) fn with_views(
        dataset: &Dataset,
        config: TrainConfig,
        engine: Box<dyn Engine>,
        chosen: &Chosen,
        step: u32,
    ) -> Result<Self> {
        // Before anything takes time: better to fail now than after an hour.
        let lpips = config.read_lpips()?;
        let views = |which: &[usize]| -> Vec<View> {
            which.iter().map(|&i| dataset.views[i].clone()).collect()
        };
        let (mut run, notes) = Run::new(dataset, config, engine, chosen, step)?;
        perceptual::hand_over(&mut run, lpips.as_ref())?;
        let companions = Companions {
            pacing: Pacing::default(),
            watch: Watch::new(views(&chosen.watch), run.config()),
            asking: Asking::new(&views(&chosen.train), run.config()),
            held_out: HeldOut {
                views: views(&chosen.eval),
                lpips,
            },
        };
        Ok(Self {
            run,
            companions,
            saving: Saving::new(CaptureIdentity::of(dataset)),
            notes,
            awaited_strategy: None,
            stop_at: None,
            skipped: dataset.skipped,
        })
    }

    /// Lets a density strategy of the caller's own decide when Gaussians are added, moved and removed, in
    /// place of the one that the configuration names; `densify` of the configuration then counts only where
    /// the strategy looks at it, and where learning rates settle (`densify.stop`). Before the first step; a
    /// run that goes on from a checkpoint is given the same strategy again. The run's `config.toml` alone
    /// does not repeat it.
    ///
    /// ```
    /// # use dapple_train::{DensityStrategy, Trainer};
    /// # use dapple_engine::{DensifyPlan, Extras, LearningRates};
    /// /// Never adds nor removes anything.
    /// #[derive(Debug)]
    /// struct Still;
    ///
    /// impl DensityStrategy for Still {
    ///     fn name(&self) -> &str {
    ///         "still"
    ///     }
    ///     fn plan(&self, _: u32) -> Option<DensifyPlan> {
    ///         None
    ///     }
    ///     fn accumulates(&self, _: u32) -> bool {
    ///         false
    ///     }
    ///     fn extras(&self, _: u32, _: &LearningRates) -> Extras {
    ///         Extras::default()
    ///     }
    /// }
    ///
    /// fn still(trainer: Trainer) -> dapple_scene::Result<Trainer> {
    ///     trainer.with_strategy(Still)
    /// }
    /// ```
    ///
    /// # Errors
    /// Steps were already taken with another strategy.
    pub fn with_strategy(mut self, strategy: impl DensityStrategy + 'static) -> Result<Self> {
        let began_with = match self.awaited_strategy.as_deref() {
            Some(name) => name,
            None => self.run.schedule.strategy_name(),
        };
        if self.run.state.step > 0 && began_with != strategy.name() {
            return Err(Error::input(format!(
                "the run has taken {} steps with the strategy \"{began_with}\", and \"{}\" is another",
                self.run.state.step,
                strategy.name()
            ))
            .hint("give it before the first step, and to a run that goes on the one it began with"));
        }
        self.awaited_strategy = None;
        self.notes.push(format!(
            "density control is the program's own, \"{}\": config.toml does not name it",
            strategy.name()
        ));
        self.run.schedule.set_strategy(Arc::new(strategy));
        Ok(self)
    }

    /// A run does not go on with another strategy than it began with.
    fn check_strategy(&self) -> Result<()> {
        let Some(name) = &self.awaited_strategy else {
            return Ok(());
        };
        Err(Error::input(format!(
            "the run began with a density strategy of its program's own, \"{name}\", which is not known here"
        ))
        .hint("go on with it from that program: Trainer::resume, then Trainer::with_strategy"))
    }

    /// Ends the run after this step with [`Ending::Stopped`], as if the observer had asked for it: the
    /// schedule stays that of the whole run. `None` lets it go to the end.
    pub fn stop_at(&mut self, step: Option<u32>) {
        self.stop_at = step;
    }

    /// One training step, with the density control that follows it.
    ///
    /// # Errors
    /// What the engine cannot do; a loss that is not finite; no Gaussian left.
    pub fn step(&mut self) -> Result<()> {
        self.check_strategy()?;
        self.advance(&mut Silent)?;
        let bad_end = self.run.state.bad_end;
        bad_end.and_then(Ending::error).map_or(Ok(()), Err)
    }

    fn advance(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let photo = match self.run.next_photo() {
            Ok(photo) => photo,
            Err(error) => {
                self.saving
                    .save(&mut self.run, &mut self.companions, observer)?;
                return Err(error);
            }
        };
        self.run.advance(photo, observer)
    }

    /// Runs to the last step of the configuration and scores the held-out photos. Can be called
    /// again after a stop: it goes on where it was.
    ///
    /// # Errors
    /// What the engine cannot do, if nothing of the run can be saved; a strategy that is missing. A run that
    /// ends badly is not an error here, so that what there is can be saved: see [`Outcome::ending`].
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        self.check_strategy()?;
        if let Some(outcome) = self.failed_outcome() {
            return Ok(outcome);
        }
        let result = self.run_to_the_end(observer);
        self.run.state.clock.pause();
        result.or_else(|error| self.saving.rescue(error, &mut self.run, observer))
    }

    fn run_to_the_end(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut ending = Ending::Finished;
        while !self.run.is_at_last_step() && self.run.is_sound() {
            let step = self.run.state.step;
            let is_there = self.stop_at.is_some_and(|stop| step >= stop);
            if is_there || observer.should_stop() {
                ending = Ending::Stopped(step);
                break;
            }
            self.advance(observer)?;
            for companion in self.companions.all() {
                companion.after_step(&mut self.run, observer)?;
            }
            loop {
                observer.between_steps(&mut Onlooker::of(&mut self.run))?;
                let asked = observer.wants_checkpoint();
                self.saving
                    .after_step(&mut self.run, &mut self.companions, observer, asked)?;
                // Whoever rests and asks for a checkpoint rests on.
                if !asked || !self.run.is_sound() {
                    break;
                }
            }
        }
        self.run.drain(observer)?;
        if let Some(outcome) = self.saving.lost(&mut self.run) {
            return Ok(outcome);
        }
        if ending == Ending::Finished {
            self.take_last_splats(observer)?;
        } else {
            // Without the scoring that follows: the whole run does not have it.
            self.saving
                .save(&mut self.run, &mut self.companions, observer)?;
        }
        // The copy may have shown what no report did.
        if let Some(outcome) = self.saving.lost(&mut self.run) {
            return Ok(outcome);
        }
        ending = self.run.state.bad_end.unwrap_or(ending);
        let (mut eval, mut aligned) = (None, None);
        if ending.is_good() && !self.eval_views().is_empty() {
            let report = self.evaluate_at_the_end(observer)?;
            observer.on_eval(self.run.state.step, &report);
            eval = Some(report);
            if self.config().poses.refine {
                aligned = Some(self.evaluate_aligned()?);
            }
        }
        Ok(Outcome {
            ending,
            steps: self.run.state.step,
            gaussians: self.run.state.gaussians,
            eval,
            aligned,
        })
    }

    /// What a run ends with whose steps are all done.
    fn take_last_splats(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let run = &mut self.run;
        for companion in self.companions.all() {
            if let Some(best) = companion.ends_with() {
                run.engine.upload(&best.splats, None)?;
                // The engine has forgotten what it learnt. Poses are not refined beside a watch.
                let views = &best.views;
                run.learnt = Some((views.appearance.clone(), views.look.clone()));
            }
        }
        let splats = self.saving.copy(run)?;
        run.state.gaussians = splats.len() as u64;
        if run.is_sound() {
            observer.on_last_splats(&splats);
        }
        Ok(())
    }

    /// What the photos that are set aside said; `None` where none are.
    pub fn watch_report(&self) -> Option<WatchReport> {
        self.companions.watch.report()
    }

    /// What photos set aside for a while said of a longer run.
    pub fn outlooks(&self) -> &[Outlook] {
        &self.companions.asking.said
    }

    /// Names of the photos trained on, in the engine's order.
    pub fn train_names(&self) -> &[String] {
        &self.run.photos.names
    }

    /// The photos trained on, by name, with their cameras as they were given.
    pub(crate) fn given_cameras(&self) -> &[(String, Camera)] {
        &self.run.photos.cameras
    }

    /// The local origin that cameras and splats count from: [`Dataset::origin`].
    pub fn origin(&self) -> DVec3 {
        self.saving.capture.origin()
    }

    /// What made the engine fail, when a run has ended with [`Ending::Failed`]; and what was lost, and why it
    /// may be, when it has ended with [`Ending::NonFinite`] or [`Ending::NonFiniteLoss`].
    pub fn failure(&self) -> Option<&Error> {
        self.run.state.failure.as_ref()
    }

    /// Waits until every step that was enqueued is done.
    pub fn wait(&mut self) -> Result<()> {
        self.run.drain(&mut Silent)
    }

    /// Renders the present splats as scoring does.
    pub fn render(&mut self, camera: &Camera) -> Result<Rendered> {
        let settings = self.run.schedule.render_settings();
        self.run.engine.render(camera, &settings)
    }

    /// Steps done, or enqueued on an engine that has a queue.
    pub fn steps_done(&self) -> u32 {
        self.run.state.step
    }

    /// Gaussians, as far as is known without waiting for the engine.
    pub fn gaussians(&self) -> u64 {
        self.run.state.gaussians
    }

    /// The configuration of this run.
    pub fn config(&self) -> &TrainConfig {
        self.run.config()
    }

    /// The numbers of each step.
    pub fn schedule(&self) -> &Schedule {
        &self.run.schedule
    }

    /// What happened so far.
    pub fn history(&self) -> &History {
        &self.run.state.history
    }

    /// The engine and its device, for people.
    pub fn device(&self) -> String {
        self.run.engine.description()
    }

    /// How photos were read while training, where they do not all fit into memory.
    pub fn photo_traffic(&self) -> Option<PhotoTraffic> {
        self.run.photos.traffic()
    }

    /// Number of views trained on.
    pub fn train_view_count(&self) -> usize {
        self.run.photos.ids.len()
    }

    /// Photos of the capture that were not there and left out: [`Dataset::skipped`].
    pub fn skipped_photos(&self) -> usize {
        self.skipped
    }

    /// The held-out views.
    pub fn eval_views(&self) -> &[View] {
        &self.companions.held_out.views
    }

    /// Remarks for the user: what of this run is not as they may expect.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The engine, for calls the trainer has no word for.
    pub fn engine_mut(&mut self) -> &mut dyn Engine {
        self.run.engine.as_mut()
    }
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
    let budget = Evidence::of(dataset, train)?.budget(config.preset, first, fit);
    config.max_gaussians = budget.gaussians;
    Ok(Some(budget))
}
