//! End of a run: its final splats, and their scores.

use super::Trainer;
use super::hooks::{Callers, Hooks};
use crate::event::Event;
use crate::hook::CheckpointKind;
use crate::{Ending, EvalReport, Outcome, Seconds, broken};
use dapple_engine::{NonFiniteReport, Pictures};
use dapple_scene::{Result, View};
use std::sync::Arc;
use std::time::Instant;

impl Trainer {
    /// Copies the state of a run whose steps are all done, and sends it to the hooks that need it.
    pub(super) fn send_final_state(&mut self, callers: Callers<'_, '_>) -> Result<()> {
        if !self.hooks.needs(callers).final_state || !self.run.has_finite_state() {
            return Ok(());
        }
        let started = Instant::now();
        let checkpoint = match self.checkpoint_for(CheckpointKind::Final, callers)? {
            Ok(checkpoint) => Arc::new(checkpoint),
            Err(error) => {
                self.hooks.saving.unsaved_state = Some(error);
                return Ok(());
            }
        };
        self.run.state.history.seconds.checkpoints += started.elapsed().as_secs_f64();
        // Such a run ends badly, or with earlier splats.
        let found = NonFiniteReport::find_in(&checkpoint.splats);
        let count = checkpoint.splats.len() as u64;
        match count == 0 || broken::is_lost(found, count) {
            true => Ok(()),
            false => self.hooks.send(&Event::FinalState(&checkpoint), callers),
        }
    }

    /// Determines the final splats of a run whose steps are all done.
    pub(super) fn take_final_splats(&mut self, callers: Callers<'_, '_>) -> Result<()> {
        let run = &mut self.run;
        for hook in self.hooks.each(callers) {
            if let Some(best) = hook.final_splats() {
                run.engine.upload(&best.splats, None)?;
                // The engine has dropped the appearance of that step. Runs with validation photos do not refine poses.
                run.learnt = Some(best.views.clone());
            }
        }
        let splats = self.hooks.saving.copy(run)?;
        run.state.gaussians = splats.len() as u64;
        match run.has_finite_state() {
            true => self.hooks.send(&Event::FinalSplats(&splats), callers),
            false => Ok(()),
        }
    }

    /// Scores the splats of a run that has ended, and returns its result.
    pub(super) fn outcome(&mut self, ending: Ending, callers: Callers<'_, '_>) -> Result<Outcome> {
        let ending = self.run.state.bad_end.unwrap_or(ending);
        let (mut eval, mut aligned) = (None, None);
        if ending.is_good() && !self.eval_views().is_empty() {
            let report = Arc::new(self.score_at_the_end(callers)?);
            let event = Event::Eval(self.run.state.step, Arc::clone(&report));
            self.hooks.send(&event, callers)?;
            drop(event);
            eval = Some(Arc::unwrap_or_clone(report));
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

    /// Scores the final splats, and sends the pictures of each view to the hooks that need them.
    fn score_at_the_end(&mut self, callers: Callers<'_, '_>) -> Result<EvalReport> {
        if !self.hooks.needs(callers).pictures {
            return self.evaluate_at_the_end();
        }
        // Built-in hooks take no pictures.
        let Hooks {
            held_out, added, ..
        } = &mut self.hooks;
        let mut show = |view: &View, pictures: Pictures| -> Result<()> {
            let pictures = Arc::new(pictures);
            let event = Event::Pictures(view, &pictures);
            let added = added.iter_mut().filter(|hook| hook.needs().pictures);
            for hook in added {
                hook.on(&event)?;
            }
            let callers = callers.iter_mut().filter(|hook| hook.needs().pictures);
            for hook in callers {
                hook.on(&event)?;
            }
            Ok(())
        };
        held_out.score(&mut self.run, true, Some(&mut show))
    }

    /// Scores the held-out photos with the current splats, by PSNR and SSIM; by LPIPS too if the configuration names
    /// weights and the engine has a device for it.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        self.hooks.held_out.score(&mut self.run, false, None)
    }

    /// Scores the held-out photos as at the end of a run, by LPIPS too if the configuration names weights.
    pub fn evaluate_at_the_end(&mut self) -> Result<EvalReport> {
        self.hooks.held_out.score(&mut self.run, true, None)
    }

    /// Scores the held-out photos, each with its pose fitted to the current splats.
    ///
    /// # Errors
    /// See [`crate::evaluate_aligned`].
    pub fn evaluate_aligned(&mut self) -> Result<EvalReport> {
        self.hooks.held_out.score_aligned(&mut self.run)
    }

    /// Adds time that was spent on the run outside of the trainer: opening the device, reading the capture.
    pub fn add_seconds(&mut self, seconds: &Seconds) {
        let history = &mut self.run.state.history;
        history.seconds = history.seconds.and(seconds);
    }
}
