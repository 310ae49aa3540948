//! Drives an engine through a run.
//!
//! 1. Split the capture, make the first Gaussians, pass photos and Gaussians to the engine.
//! 2. In each step: take the numbers from the schedule, enqueue the step and its density control, collect the reports
//!    of finished steps.
//! 3. Score held-out photos at the steps of the schedule, and at the end.
//! 4. Stop early if a hook requests it, if the loss or Gaussians are non-finite (see [`mod@crate::broken`]), or
//!    if no Gaussian is left.
//! 5. Call hooks after each batch of steps; a batch is one step, unless the configuration sets `views_per_step`.
//! 6. Measure the withheld validation photos, if there are some, and end with the best splats: [`mod@crate::validation`].
//! 7. Make a checkpoint when one is due and when the run is stopped: see [`crate::saving`].
//!
//! Everything that accompanies the steps is a hook ([`mod@crate::hook`]); `hooks.rs` has their order.
//!
//! The trainer waits for the engine only to score, to measure withheld photos, for checkpoints and at the end.

mod begin;
mod continued;
mod ended;
mod first_views;
mod held_out;
mod hooks;
mod joined;
mod paused_run;
mod photos;
mod resume;
mod run;
mod steps;
mod watching;

pub use begin::{fitting_gaussians, refuse_no_gaussian, sampled_steps};
pub use paused_run::PausedRun;
pub(crate) use photos::half_camera;
pub(crate) use run::Run;

use crate::extension::{ExtensionCheck, ExtensionHook};
use crate::features::{self, Finding, HandOver};
use crate::hook::{Next, RunHook};
use crate::loader::PhotoTraffic;
use crate::saving::Saving;
use crate::sky::Sky;
use crate::time_budget::{StepRateController, StepRateHook};
use crate::validation::Validation;
use crate::views::Chosen;
use crate::{
    CaptureIdentity, DensityStrategy, Ending, History, Outcome, Plan, Schedule, TrainConfig,
    WatchReport,
};
use dapple_device::BoxedEngine;
use dapple_engine::Rendered;
use dapple_scene::{Camera, Dataset, Error, Result, View};
use glam::DVec3;
use held_out::HeldOut;
use hooks::{Callers, Hooks};
use std::sync::Arc;

/// # Errors
/// More views per step than training photos: a batch would take a photo twice.
fn refuse_large_batch(config: &TrainConfig, photos: usize) -> Result<()> {
    let views = config.views_per_step;
    match views > 1 && views as usize > photos {
        false => Ok(()),
        true => Err(Error::input(format!(
            "views_per_step = {views}, and the capture has {photos} training photos"
        ))
        .hint(format!("lower --views-per-step to at most {photos}"))),
    }
}

/// A run with its hooks.
pub struct Trainer {
    pub(crate) run: Run,
    pub(crate) hooks: Hooks,
    pub(crate) notes: Vec<String>,
    /// Name of the caller's own strategy that the run began with, if the caller has not supplied it again.
    pub(crate) awaited_strategy: Option<String>,
    stop_at: Option<u32>,
    /// See [`Dataset::skipped`].
    skipped: usize,
}

impl Trainer {
    /// A trainer after `step` steps, its engine without splats.
    pub(crate) fn with_views(
        dataset: &Dataset,
        config: TrainConfig,
        engine: BoxedEngine,
        (chosen, sky): (&Chosen, Option<&Sky>),
        step: u32,
    ) -> Result<Self> {
        refuse_large_batch(&config, chosen.train.len())?;
        // Read the file before slow work, so that a fault is found early.
        let lpips = config.read_lpips()?;
        let views = |which: &[usize]| -> Vec<View> {
            which.iter().map(|&i| dataset.views[i].clone()).collect()
        };
        let found = features::find(&Finding {
            config: &config,
            dataset,
            train: &chosen.train,
            extent: chosen.extent,
            sky,
        })?;
        let mut run = Run::new(dataset, config, engine, chosen, step)?;
        let mut notes = Vec::new();
        let mut to = HandOver {
            engine: &mut run.engine,
            config: run.schedule.config(),
            ids: &run.photos.ids,
            coarse_ids: &run.photos.coarse_ids,
            least_edge: run.photos.least_edge(),
            lpips: lpips.as_ref(),
            notes: &mut notes,
        };
        features::hand_over(&mut to)?;
        found.into_iter().try_for_each(|input| input(&mut to))?;
        let hooks = Hooks {
            step_rate: StepRateHook::default(),
            watch: Validation::new(views(&chosen.watch), run.config()),
            extension: ExtensionHook::new(&views(&chosen.train), run.plan()),
            held_out: HeldOut {
                views: views(&chosen.eval),
                lpips,
            },
            added: Vec::new(),
            saving: Saving::new(CaptureIdentity::from_dataset(dataset)),
        };
        Ok(Self {
            run,
            hooks,
            notes,
            awaited_strategy: None,
            stop_at: None,
            skipped: dataset.skipped,
        })
    }

    /// Sets the caller's own density strategy instead of the one that the configuration names. Only `densify.stop` of
    /// the configuration then has an effect by itself: learning rates settle there. The other keys of `densify` apply
    /// if the strategy reads them. Call it before the first step; a resumed run needs the same strategy again. The
    /// run's `config.toml` alone does not repeat such a run.
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
            .hint("give it before the first step, and resume a run with its own strategy"));
        }
        self.awaited_strategy = None;
        self.notes.push(format!(
            "density control is the program's own, \"{}\": config.toml does not name it",
            strategy.name()
        ));
        self.run.schedule.set_strategy(Arc::new(strategy));
        Ok(self)
    }

    /// Checks that a run does not resume with another strategy than it began with.
    fn check_strategy(&self) -> Result<()> {
        let Some(name) = &self.awaited_strategy else {
            return Ok(());
        };
        Err(Error::input(format!(
            "the run began with a density strategy of its program's own, \"{name}\", which is not known here"
        ))
        .hint("resume it from that program: Trainer::resume, then Trainer::with_strategy"))
    }

    /// Ends the run after the batch of this step with [`Ending::Stopped`], as if a hook had stopped it. The schedule remains
    /// that of the whole run. `None` runs to the end.
    pub fn stop_at(&mut self, step: Option<u32>) {
        self.stop_at = step;
    }

    /// Adds a hook, such as a viewer. It is called after the built-in hooks, in the order of the calls of this method.
    #[must_use]
    pub fn with_hook(mut self, hook: impl RunHook + Send + 'static) -> Self {
        self.hooks.added.push(Box::new(hook));
        self
    }

    /// Ends the run when its time budget is used. The number of steps changes during the run
    /// ([`mod@crate::time_budget`]), and the plan records it. Set the controller before the first step; a resumed run
    /// keeps its last pace.
    pub fn set_pacer(&mut self, pacer: StepRateController) {
        self.hooks.step_rate = StepRateHook(Some(pacer));
    }

    /// Takes one training step, with the density control that follows it, without calling hooks.
    ///
    /// # Errors
    /// The engine fails; the loss is non-finite; no Gaussian is left.
    pub fn step(&mut self) -> Result<()> {
        self.check_strategy()?;
        self.hooks.saving.is_stored = self.hooks.needs(&mut []).checkpoints;
        self.advance(&mut [])?;
        self.run.events.clear();
        let bad_end = self.run.state.bad_end;
        bad_end.and_then(Ending::error).map_or(Ok(()), Err)
    }

    fn advance(&mut self, callers: Callers<'_, '_>) -> Result<()> {
        match self.run.next_photo() {
            Ok(photo) => self.run.advance(photo),
            Err(error) => {
                // A checkpoint has no sums of a batch.
                if self.run.is_between_batches() {
                    self.save(callers)?;
                }
                Err(error)
            }
        }
    }

    /// Runs to the last step of the configuration and scores the held-out photos. If it is called again after a stop,
    /// it continues from there. `hook` accompanies this call; [`crate::Silent`] does nothing.
    ///
    /// # Errors
    /// The engine fails and no splats can be saved; a hook fails; a strategy is missing. A run that ends badly is not
    /// an error here, so that its splats can be saved: see [`Outcome::ending`].
    pub fn run(&mut self, hook: &mut dyn RunHook) -> Result<Outcome> {
        self.run_with(&mut [hook])
    }

    /// Like [`Self::run`], with several hooks.
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_with(&mut self, hooks: &mut [&mut dyn RunHook]) -> Result<Outcome> {
        self.check_strategy()?;
        if let Some(outcome) = self.failed_outcome() {
            return Ok(outcome);
        }
        self.run.events.clear();
        self.hooks.saving.is_stored = self.hooks.needs(hooks).checkpoints;
        let result = self.run_to_the_end(hooks);
        self.run.state.clock.pause();
        result.or_else(|error| {
            let outcome = self.hooks.saving.rescue(error, &mut self.run)?;
            // A hook that fails again must not hide the recovered splats.
            let _ = self.send_events(hooks);
            Ok(outcome)
        })
    }

    fn run_to_the_end(&mut self, callers: Callers<'_, '_>) -> Result<Outcome> {
        let ending = self.take_steps(callers)?;
        self.run.drain()?;
        self.send_events(callers)?;
        if let Some(outcome) = self.hooks.saving.lost(&mut self.run) {
            return Ok(outcome);
        }
        if ending == Ending::Finished {
            self.send_final_state(callers)?;
            self.take_final_splats(callers)?;
        } else {
            // Without the scoring that follows, which the whole run does not have at this step.
            self.save(callers)?;
        }
        // The copy may have shown non-finite values that no report contained.
        if let Some(outcome) = self.hooks.saving.lost(&mut self.run) {
            return Ok(outcome);
        }
        self.outcome(ending, callers)
    }

    /// Takes steps until the last, or until the run is stopped or ends badly.
    fn take_steps(&mut self, callers: Callers<'_, '_>) -> Result<Ending> {
        while !self.run.is_at_last_step() && self.run.has_finite_state() {
            let step = self.run.state.step;
            let is_there = self.stop_at.is_some_and(|stop| step >= stop);
            let may_stop = self.run.is_between_batches();
            if may_stop && (is_there || self.hooks.should_stop(callers)) {
                return Ok(Ending::Stopped(step));
            }
            self.advance(callers)?;
            self.send_events(callers)?;
            if !self.run.is_between_batches() {
                continue;
            }
            for hook in 0..self.hooks.each(callers).len() {
                self.call(hook, callers)?;
            }
        }
        Ok(Ending::Finished)
    }

    /// Calls a hook after a step, and acts on the value that it returns.
    fn call(&mut self, hook: usize, callers: Callers<'_, '_>) -> Result<()> {
        loop {
            let mut all = self.hooks.each(callers);
            let next = all[hook].after_step(&mut PausedRun::new(&mut self.run))?;
            self.send_events(callers)?;
            match next {
                Next::Continue => return Ok(()),
                Next::Amend(change) => {
                    self.run.amend(change)?;
                    return self.send_events(callers);
                }
                // The hook is called again, so that a paused run remains paused after a requested checkpoint.
                Next::Checkpoint if self.run.is_at_last_step() => {}
                Next::Checkpoint => {
                    self.save(callers)?;
                    if !self.run.has_finite_state() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Sends the events of the run to its hooks.
    fn send_events(&mut self, callers: Callers<'_, '_>) -> Result<()> {
        for event in std::mem::take(&mut self.run.events) {
            self.hooks.send(&event, callers)?;
        }
        Ok(())
    }

    /// Returns the results of the whole-run validation photos; `None` without them.
    pub fn watch_report(&self) -> Option<WatchReport> {
        self.hooks.watch.report()
    }

    /// Returns the extension checks so far.
    pub fn extension_checks(&self) -> &[ExtensionCheck] {
        &self.hooks.extension.said
    }

    /// Returns the names of the training photos, in the engine's order.
    pub fn train_names(&self) -> &[String] {
        &self.run.photos.names
    }

    /// Returns the training photos, by name, with their original cameras.
    pub(crate) fn given_cameras(&self) -> &[(String, Camera)] {
        &self.run.photos.cameras
    }

    /// Returns the local origin of cameras and splats: [`Dataset::origin`].
    pub fn origin(&self) -> DVec3 {
        self.hooks.saving.capture.origin()
    }

    /// Returns the error of the engine if a run has ended with [`Ending::Failed`]. For [`Ending::NonFinite`] and
    /// [`Ending::NonFiniteLoss`], returns what became non-finite and a possible reason.
    pub fn failure(&self) -> Option<&Error> {
        self.run.state.failure.as_ref()
    }

    /// Waits until every enqueued step is done.
    pub fn wait(&mut self) -> Result<()> {
        self.run.drain()
    }

    /// Renders the current splats with the settings of scoring.
    pub fn render(&mut self, camera: &Camera) -> Result<Rendered> {
        let settings = self.run.schedule.render_settings();
        self.run.engine.render(camera, &settings)
    }

    /// Returns the steps done, or enqueued on an engine with a queue.
    pub fn steps_done(&self) -> u32 {
        self.run.state.step
    }

    /// Returns the number of Gaussians, as far as it is known without waiting for the engine.
    pub fn gaussians(&self) -> u64 {
        self.run.state.gaussians
    }

    /// Returns the configuration of this run, without its amendments. It does not change during the run.
    pub fn config(&self) -> &TrainConfig {
        self.run.config()
    }

    /// Returns the plan of this run: its configuration, and its amendments so far.
    pub fn plan(&self) -> &Plan {
        self.run.plan()
    }

    /// Returns the schedule of this run.
    pub fn schedule(&self) -> &Schedule {
        &self.run.schedule
    }

    /// Returns true if the run has further parts ([`Self::continue_run`]).
    pub fn is_continued(&self) -> bool {
        !self.run.state.history.continuations.is_empty()
    }

    /// Returns the history up to the current step.
    pub fn history(&self) -> &History {
        &self.run.state.history
    }

    /// Returns a description of the engine and its device for the user.
    pub fn device(&self) -> String {
        self.run.engine.description()
    }

    /// Returns the statistics of photo reads, if not all photos fit into memory.
    pub fn photo_traffic(&self) -> Option<PhotoTraffic> {
        self.run.photos.traffic()
    }

    /// Returns the number of training views.
    pub fn train_view_count(&self) -> usize {
        self.run.photos.ids.len()
    }

    /// Returns the number of missing photos that were skipped: [`Dataset::skipped`].
    pub fn skipped_photos(&self) -> usize {
        self.skipped
    }

    /// Returns the held-out views.
    pub fn eval_views(&self) -> &[View] {
        &self.hooks.held_out.views
    }

    /// Returns notes for the user about unexpected properties of this run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the engine, for calls that the trainer does not offer.
    pub fn engine_mut(&mut self) -> &mut BoxedEngine {
        &mut self.run.engine
    }
}
