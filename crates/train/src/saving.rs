//! Checkpoints of a running trainer, resuming from a checkpoint, and recovery of splats after the engine has failed.
//!
//! 1. A checkpoint is due every N steps, or by time. The time between two is at least [`SHARE`] times the time of the
//!    last one, so that checkpoints take at most a hundredth of a run.
//! 2. A checkpoint is a copy of the engine's state once every enqueued step is done. The observer saves it. The trainer
//!    retains the splats too, since the device may be lost, or parameters may become non-finite ([`crate::broken`]).
//!    Non-finite splats are neither saved nor retained.
//! 3. A run that is stopped ends with a checkpoint, made before the last scoring.
//! 4. If the engine fails, the run ends with the splats that the engine still has, or else with those of the last
//!    checkpoint.
//! 5. [`Trainer::resume`] uploads the whole state. Views, rates and random numbers follow from seed and step, so that
//!    the next step is that of an uninterrupted run.

use crate::clock::Clock;
use crate::trainer::{Companions, Run};
use crate::views::Chosen;
use crate::{
    CaptureIdentity, Checkpoint, Ending, Observer, Outcome, RunOrigin, Silent, Trainer, broken,
};
use dapple_engine::{AppearanceGrids, AppearanceMlp, Engine, RefinedPose, ViewState, filter_3d};
use dapple_scene::{Dataset, Error, Result, Splats};
use std::sync::Arc;
use std::time::Instant;

/// Least ratio of the time between two checkpoints and the time of one.
const SHARE: f64 = 100.0;

/// State of the checkpoints of a trainer.
pub(crate) struct Saving {
    pub(crate) capture: CaptureIdentity,
    pub(crate) launch: RunOrigin,
    /// Reason why the last checkpoint was not saved.
    pub(crate) unsaved: Option<Error>,
    /// Splats of the last copy; at first the initial splats of the run.
    kept: Option<Kept>,
    /// Ending of a run with non-finite parameters.
    lost: Option<Ending>,
    /// Step of the last checkpoint.
    saved_step: Option<u32>,
    last: Instant,
    last_took_seconds: f64,
}

/// A copy of the splats, as files hold them.
struct Kept {
    /// Steps done before the copy.
    step: u32,
    splats: Arc<Splats>,
    views: ViewState,
}

impl Kept {
    /// Returns the outcome of a run that ended at this copy.
    fn outcome(&self, ending: Ending) -> Outcome {
        Outcome {
            ending,
            steps: self.step,
            gaussians: self.splats.len() as u64,
            eval: None,
            aligned: None,
        }
    }
}

impl Saving {
    pub(crate) fn new(capture: CaptureIdentity) -> Self {
        Self {
            capture,
            launch: RunOrigin::default(),
            unsaved: None,
            kept: None,
            lost: None,
            saved_step: None,
            last: Instant::now(),
            last_took_seconds: 0.0,
        }
    }

    /// Stores the initial splats of a run, after `step` steps.
    pub(crate) fn begin_with(&mut self, step: u32, splats: &Splats) {
        self.kept = Some(Kept {
            step,
            splats: Arc::new(splats.clone()),
            views: ViewState::default(),
        });
    }

    /// Returns the outcome of a run whose engine has failed.
    fn failed_outcome(&self) -> Option<Outcome> {
        let ending = |kept: &Kept| self.lost.unwrap_or(Ending::Failed(kept.step));
        self.kept.as_ref().map(|kept| kept.outcome(ending(kept)))
    }

    fn is_due(&self, run: &Run, observer: &dyn Observer) -> bool {
        if !observer.saves_checkpoints() && !run.state.has_queue {
            return false;
        }
        let every = run.config().checkpoint_every;
        let least = 60.0 * run.config().checkpoint_minutes;
        let waited = self.last.elapsed().as_secs_f64();
        every > 0 && run.state.step.is_multiple_of(every)
            || least > 0.0 && waited >= least.max(SHARE * self.last_took_seconds)
    }

    /// Called after a step and its step hooks; `asked` is true if the observer requests a checkpoint now.
    pub(crate) fn after_step(
        &mut self,
        run: &mut Run,
        others: &mut Companions,
        observer: &mut dyn Observer,
        asked: bool,
    ) -> Result<()> {
        if run.is_at_last_step() {
            return Ok(());
        }
        let scored = run.state.history.evals.last();
        if scored.is_some_and(|row| row.step == run.state.step) {
            self.copy_if_cheap(run)?;
        }
        if asked || self.is_due(run, observer) {
            self.save(run, others, observer)?;
        }
        Ok(())
    }

    /// Waits for every enqueued step, and copies the state that the run needs to resume.
    fn checkpoint(&self, run: &mut Run, others: &mut Companions) -> Result<Checkpoint> {
        run.drain(&mut Silent)?;
        let (splats, state) = run.engine.download()?;
        let mut checkpoint = Checkpoint {
            step: run.state.step,
            config: run.config().clone(),
            capture: self.capture.clone(),
            launch: self.launch.clone(),
            device: run.engine.description(),
            strategy: run.schedule.own_strategy().map(str::to_owned),
            history: run.state.history.clone(),
            splats,
            state,
            watched: Vec::new(),
            extension_checks: Vec::new(),
            loss_before_check: None,
            best: None,
        };
        others.add_to(&mut checkpoint);
        Ok(checkpoint)
    }

    /// Makes a checkpoint and passes it to the observer. A checkpoint that cannot be saved does not end the run.
    pub(crate) fn save(
        &mut self,
        run: &mut Run,
        others: &mut Companions,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        run.drain(observer)?;
        // A non-finite state must not replace a finite one.
        if !run.has_finite_state() || run.state.gaussians == 0 {
            return Ok(());
        }
        let is_new = self.saved_step != Some(run.state.step);
        if !observer.saves_checkpoints() || !is_new {
            run.state.gaussians = self.copy(run)?.len() as u64;
            return Ok(());
        }
        let started = Instant::now();
        let checkpoint = self.checkpoint(run, others)?;
        run.state.gaussians = checkpoint.splats.len() as u64;
        if run.is_lost(&checkpoint.splats) {
            return Ok(());
        }
        let saved = observer.save_checkpoint(&checkpoint);
        observer.on_checkpoint(run.state.step, &saved);
        self.saved_step = saved.is_ok().then_some(run.state.step);
        self.unsaved = saved.err();
        let Checkpoint {
            mut splats, state, ..
        } = checkpoint;
        filter_3d::bake(&mut splats, &state.filter_3d);
        let kept = Kept {
            step: run.state.step,
            splats: Arc::new(splats),
            views: state.views,
        };
        self.keep(kept, started, run);
        Ok(())
    }

    /// Copies the splats with the photos' appearance and poses, and retains them if the device may be lost. Also
    /// returns the splats, as files hold them.
    pub(crate) fn copy(&mut self, run: &mut Run) -> Result<Arc<Splats>> {
        let started = Instant::now();
        let splats = Arc::new(run.engine.fused_splats()?);
        if run.is_lost(&splats) {
            return Ok(splats);
        }
        let views = run.view_state()?;
        let kept = Kept {
            step: run.state.step,
            splats: Arc::clone(&splats),
            views,
        };
        self.keep(kept, started, run);
        Ok(splats)
    }

    /// Calls [`Self::copy`] at a scoring, which has waited for the engine. Does nothing if the copy would cost more
    /// than half of the time for checkpoints. A run whose parameters become non-finite then loses few steps.
    fn copy_if_cheap(&mut self, run: &mut Run) -> Result<()> {
        let waited = self.last.elapsed().as_secs_f64();
        if waited >= 2.0 * SHARE * self.last_took_seconds {
            self.copy(run)?;
        }
        Ok(())
    }

    fn keep(&mut self, kept: Kept, started: Instant, run: &mut Run) {
        self.kept = Some(kept);
        let took = started.elapsed().as_secs_f64();
        self.last = Instant::now();
        self.last_took_seconds = took;
        run.state.history.seconds.checkpoints += took;
    }

    /// Returns the outcome of a run with non-finite parameters: the last finite copy.
    pub(crate) fn lost(&mut self, run: &mut Run) -> Option<Outcome> {
        let is_of_numbers =
            |e: &Ending| matches!(e, Ending::NonFinite(_) | Ending::NonFiniteLoss(_));
        let ending = run.state.bad_end.filter(is_of_numbers)?;
        let error = broken::error(ending, run.state.not_finite, run.config());
        run.state.failure = Some(error);
        self.lost = Some(ending);
        let outcome = self.failed_outcome()?;
        run.state.gaussians = outcome.gaussians;
        Some(outcome)
    }

    /// Ends a run whose engine has failed with the best available splats.
    pub(crate) fn rescue(
        &mut self,
        error: Error,
        run: &mut Run,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        // The device may still respond: then no step is lost. No checkpoint is made, because a round of density control
        // may be missing.
        if let Ok(splats) = run.engine.fused_splats()
            && !splats.is_empty()
        {
            // Only the steps of these reports matter now.
            let _ = run.collect(observer);
            let views = run.view_state().unwrap_or_default();
            self.kept = Some(Kept {
                step: run.state.reported,
                splats: Arc::new(splats),
                views,
            });
        }
        // The initial splats are not worth a file.
        let kept = self.kept.as_ref().filter(|kept| kept.step > 0);
        let Some(kept) = kept else {
            return Err(error);
        };
        let outcome = kept.outcome(Ending::Failed(kept.step));
        run.state.gaussians = outcome.gaussians;
        run.state.failure = Some(error);
        Ok(outcome)
    }
}

impl Trainer {
    /// Resumes a run from a checkpoint. On the same device the result is bit-identical to an uninterrupted run. Only
    /// the times of checkpoints (`config.checkpoint_every`, `.checkpoint_minutes`) may have changed in the
    /// configuration. A run with the caller's own strategy needs the same strategy again ([`Trainer::with_strategy`]).
    ///
    /// # Errors
    /// Another capture; see [`Trainer::new`] for the others.
    pub fn resume(
        dataset: &Dataset,
        mut checkpoint: Checkpoint,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        checkpoint.config.validate()?;
        let capture = CaptureIdentity::from_dataset(dataset);
        checkpoint.capture.check(&capture)?;
        let is_unchecked = checkpoint.capture.views.is_empty() && !capture.views.is_empty();
        let chosen = Chosen::new(dataset, &checkpoint.config)?;
        check_appearance(&checkpoint, chosen.train.len())?;
        let (step, config) = (checkpoint.step, checkpoint.config.clone());
        let mut trainer = Self::with_views(dataset, config, engine, &chosen, step)?;
        for companion in trainer.companions.all() {
            companion.take_from(&mut checkpoint);
        }
        let run = &mut trainer.run;
        run.engine
            .upload(&checkpoint.splats, Some(&checkpoint.state))?;
        run.state.gaussians = checkpoint.splats.len() as u64;
        let mut splats = checkpoint.splats;
        filter_3d::bake(&mut splats, &checkpoint.state.filter_3d);
        trainer.saving.begin_with(step, &splats);
        trainer.saving.launch = checkpoint.launch;
        trainer.awaited_strategy = checkpoint.strategy;
        if is_unchecked {
            trainer.notes.push(
                "the checkpoint is of an earlier Dapple, which did not note what photos, masks and depths \
                 held: only their names and sizes and the cameras are known to be those of the run"
                    .to_owned(),
            );
        }
        let (then, now) = (checkpoint.device, trainer.device());
        if kind_of(&then) != kind_of(&now) {
            trainer.notes.push(format!(
                "the run began on {then}: on {now} it continues, but not bit for bit as it would have"
            ));
        }
        let state = &mut trainer.run.state;
        state.history = checkpoint.history;
        for row in &state.history.losses {
            state.smoothed_loss.push(f64::from(row.loss));
        }
        let seconds = &mut state.history.seconds;
        state.clock = Clock::at(seconds.train);
        seconds.setup += started.elapsed().as_secs_f64();
        Ok(trainer)
    }

    /// Waits for every enqueued step, and copies the state that the run needs to resume.
    ///
    /// # Errors
    /// The engine fails.
    pub fn checkpoint(&mut self) -> Result<Checkpoint> {
        self.saving.checkpoint(&mut self.run, &mut self.companions)
    }

    /// Records in checkpoints how the run was started.
    pub fn set_launch(&mut self, launch: RunOrigin) {
        self.saving.launch = launch;
    }

    /// Returns the outcome of a run whose engine has failed.
    pub(crate) fn failed_outcome(&self) -> Option<Outcome> {
        self.failure()?;
        self.saving.failed_outcome()
    }

    /// Returns the step of the splats of a run that failed, or that had non-finite parameters.
    pub(crate) fn failed_step(&self) -> Option<u32> {
        self.failed().map(|kept| kept.step)
    }

    /// Returns the poses that belong to the splats of a failed run.
    pub(crate) fn failed_poses(&self) -> Option<&[RefinedPose]> {
        self.failed().map(|kept| kept.views.poses.as_slice())
    }

    fn failed(&self) -> Option<&Kept> {
        self.failure()?;
        self.saving.kept.as_ref()
    }

    /// Returns the current splats, with the 3D filters of an anti-aliased run baked in, as in files and viewers. After
    /// the engine has failed, returns the recovered splats.
    pub fn splats(&mut self) -> Result<Splats> {
        if let Some(kept) = self.failed() {
            return Ok(kept.splats.as_ref().clone());
        }
        self.run.drain(&mut Silent)?;
        self.run.engine.fused_splats()
    }

    /// Returns the learned appearance of the photos in [`Self::train_names`], empty if the run learns none. After the
    /// engine has failed, returns the recovered appearance.
    pub fn appearance(&mut self) -> Result<AppearanceGrids> {
        Ok(self.learnt()?.appearance)
    }

    /// Returns the learned appearance MLP, empty if the run learns none. After the engine has failed, returns the
    /// recovered one.
    pub fn appearance_mlp(&mut self) -> Result<AppearanceMlp> {
        Ok(self.learnt()?.appearance_mlp)
    }

    fn learnt(&mut self) -> Result<ViewState> {
        if let Some(kept) = self.failed() {
            return Ok(kept.views.clone());
        }
        self.run.drain(&mut Silent)?;
        self.run.view_state()
    }

    /// Returns the reason why the last checkpoint could not be saved, if it could not.
    pub(crate) fn take_unsaved(&mut self) -> Option<Error> {
        self.saving.unsaved.take()
    }
}

/// Checks that a run with appearance has one for each training photo, from its first step on.
fn check_appearance(checkpoint: &Checkpoint, photos: usize) -> Result<()> {
    let (held, asked) = (
        &checkpoint.state.views.appearance,
        &checkpoint.config.appearance,
    );
    let expected = match asked.has_grids() && checkpoint.step > 0 {
        true => (asked.grid, photos),
        false => ([0; 3], 0),
    };
    let mlp_views = if asked.has_mlp() { photos } else { 0 };
    let found = (held.cells, held.views());
    if found == expected && checkpoint.state.views.appearance_mlp.views() == mlp_views {
        return Ok(());
    }
    Err(
        Error::input("the checkpoint's appearance is not that of its photos and configuration")
            .hint("another program has written it: use the checkpoint as the run left it"),
    )
}

/// Returns the part of a device's description that changes results: without the number of threads.
fn kind_of(device: &str) -> &str {
    match device.strip_prefix("cpu (") {
        Some(rest) => rest.split_once(", ").map_or(rest, |(_, level)| level),
        None => device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_but_not_by_threads() {
        let cpu = |threads: &str| format!("cpu ({threads}, AVX2)");
        assert_eq!(kind_of(&cpu("1 thread")), kind_of(&cpu("8 threads")));
        assert_ne!(kind_of("cpu (2 threads, NEON)"), kind_of(&cpu("2 threads")));
        assert_ne!(kind_of("gpu (A)"), kind_of("gpu (B)"));
    }
}
