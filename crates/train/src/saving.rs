//! Hook that makes checkpoints, and recovery of splats after the engine has failed.
//!
//! 1. A checkpoint is due every N steps, or by time. The time between two is at least [`SHARE`] times the time of the
//!    last one, so that checkpoints take at most a hundredth of a run.
//! 2. A checkpoint is a copy of the engine's state once every enqueued step is done. A hook saves it. The trainer
//!    retains the splats too, since the device may be lost, or parameters may become non-finite ([`crate::broken`]).
//!    Non-finite splats are neither saved nor retained.
//! 3. A run that is stopped ends with a checkpoint, made before the last scoring.
//! 4. The parts of a model that several devices share go to files one after the other: [`crate::Shards`].
//! 5. If the engine fails, the run ends with the splats that the engine still has, or else with those of the last
//!    checkpoint.

use crate::checkpoint::shards::Written;
use crate::hook::{Next, RunHook};
use crate::trainer::Run;
use crate::{
    CaptureIdentity, Checkpoint, Ending, Outcome, PausedRun, RunOrigin, ShardPlace, Shards, broken,
};
use dapple_engine::{EngineExt, ViewState, filter_3d};
use dapple_scene::{Error, Result, Splats};
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
    /// Reason why the state of the finished run was not saved.
    pub(crate) unsaved_state: Option<Error>,
    /// True if a hook stores checkpoints.
    pub(crate) is_stored: bool,
    /// Splats of the last copy; at first the initial splats of the run.
    pub(crate) kept: Option<Kept>,
    /// Ending of a run with non-finite parameters.
    lost: Option<Ending>,
    /// Step of the last checkpoint that was saved.
    pub(crate) saved_step: Option<u32>,
    /// Step of the last checkpoint that was due.
    due_step: Option<u32>,
    last: Instant,
    last_took_seconds: f64,
}

/// A copy of the splats, as files hold them.
pub(crate) struct Kept {
    /// Steps done before the copy.
    pub(crate) step: u32,
    pub(crate) splats: Arc<Splats>,
    pub(crate) views: ViewState,
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
            unsaved_state: None,
            is_stored: false,
            kept: None,
            lost: None,
            saved_step: None,
            due_step: None,
            last: Instant::now(),
            last_took_seconds: 0.0,
        }
    }

    /// Stores the initial splats of a run, after `step` steps.
    pub(crate) fn begin_with(&mut self, step: u32, splats: Splats) {
        self.kept = Some(Kept {
            step,
            splats: Arc::new(splats),
            views: ViewState::default(),
        });
    }

    /// Returns the outcome of a run whose engine has failed.
    pub(crate) fn failed_outcome(&self) -> Option<Outcome> {
        let ending = |kept: &Kept| self.lost.unwrap_or(Ending::Failed(kept.step));
        self.kept.as_ref().map(|kept| kept.outcome(ending(kept)))
    }

    fn is_due(&self, run: &Run) -> bool {
        if self.due_step == Some(run.state.step) || !self.is_stored && !run.state.has_queue {
            return false;
        }
        let every = run.config().checkpoint_every;
        let least = 60.0 * run.config().checkpoint_minutes;
        let waited = self.last.elapsed().as_secs_f64();
        every > 0 && run.last_batch().any(|step| step.is_multiple_of(every))
            || least > 0.0 && waited >= least.max(SHARE * self.last_took_seconds)
    }

    /// Waits for every enqueued step, and copies the state that the run needs to resume, without that of hooks. Writes the
    /// parts of a shared model to `place`; the inner error is that of a file.
    pub(crate) fn checkpoint(
        &self,
        run: &mut Run,
        place: Option<&ShardPlace>,
    ) -> Result<Result<Checkpoint>> {
        if !run.is_between_batches() {
            return Err(Error::input(format!(
                "step {} is in the middle of a batch, whose gradients no checkpoint holds",
                run.state.step
            ))
            .hint("make checkpoints after the last step of a batch"));
        }
        run.drain()?;
        let written = match (place, run.engine.sharing()) {
            (Some(place), Some(engine)) => Some(Shards::write(place, engine)?),
            _ => None,
        };
        let (splats, state, shards) = match written {
            Some(Ok(Written {
                splats,
                state,
                shards,
            })) => (splats, state, Some(shards)),
            Some(Err(error)) => return Ok(Err(error)),
            None => {
                let (splats, state) = run.engine.download()?;
                (splats, state, None)
            }
        };
        Ok(Ok(Checkpoint {
            step: run.state.step,
            config: run.plan().to_config(),
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
            shards,
        }))
    }

    /// Retains the splats of a checkpoint, whose making began at `started`.
    pub(crate) fn keep_checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        started: Instant,
        run: &mut Run,
    ) {
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
    pub(crate) fn rescue(&mut self, error: Error, run: &mut Run) -> Result<Outcome> {
        // The device may still respond: then no step is lost. No checkpoint is made, because a round of density control
        // may be missing.
        if let Ok(splats) = run.engine.fused_splats()
            && !splats.is_empty()
        {
            // Only the steps of these reports matter now.
            let _ = run.collect();
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

impl RunHook for Saving {
    fn name(&self) -> &'static str {
        "checkpoints"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let run = run.run();
        if run.is_at_last_step() || !run.has_finite_state() {
            return Ok(Next::Continue);
        }
        let scored = run.state.history.evals.last();
        if self.due_step != Some(run.state.step)
            && scored.is_some_and(|row| row.step == run.state.step)
        {
            self.copy_if_cheap(run)?;
        }
        if !self.is_due(run) {
            return Ok(Next::Continue);
        }
        self.due_step = Some(run.state.step);
        Ok(Next::Checkpoint)
    }
}
