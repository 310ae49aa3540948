//! Checkpoints of a running trainer, how a run goes on from one, and what is left when an engine fails.
//!
//! 1. A checkpoint is due every so many steps, or by the clock. The clock waits [`SHARE`] times as long
//!    as the last one took, so that they never cost more than a hundredth of a run.
//! 2. It is a copy of the engine's state once every step enqueued is done. The observer saves it; the
//!    trainer keeps the splats too, since a device may be lost, or the run's numbers ([`crate::broken`]).
//!    Splats that are not finite are neither saved nor kept.
//! 3. A run that is stopped ends with one, made before the last scoring.
//! 4. When the engine fails, the run ends with the splats that it still has, or else with those of the
//!    last checkpoint.
//! 5. [`Trainer::resume`] uploads all of it. Views, rates and random numbers follow from seed and step,
//!    so that the next step is the one that would have come.

use crate::clock::Clock;
use crate::views::Chosen;
use crate::{CaptureIdentity, Checkpoint, Ending, Launch, Observer, Outcome, Trainer, broken};
use dapple_engine::{Appearance, Engine, NotFinite, RefinedPose, smoothing};
use dapple_scene::{Dataset, Error, Result, Splats};
use std::sync::Arc;
use std::time::Instant;

/// Checkpoints by the clock are at least this many times as far apart as one takes.
const SHARE: f64 = 100.0;

/// What a trainer knows of its checkpoints.
pub(crate) struct Saving {
    pub(crate) capture: CaptureIdentity,
    pub(crate) launch: Launch,
    /// What made the engine fail.
    pub(crate) failure: Option<Error>,
    /// Why the last checkpoint was not saved.
    pub(crate) unsaved: Option<Error>,
    /// What was learnt of the photos' appearance by the step whose splats the run has ended with, if that
    /// is not the last.
    pub(crate) learnt: Option<Appearance>,
    /// The splats of the last copy; at first those that the run began with.
    kept: Option<Kept>,
    /// What was found not to be finite.
    broken: Option<NotFinite>,
    /// How the run ended whose numbers were lost.
    lost: Option<Ending>,
    /// The step of the last checkpoint.
    saved_step: Option<u32>,
    last: Instant,
    last_took_seconds: f64,
}

/// A copy of the splats, as files hold them.
struct Kept {
    /// Steps that went into them.
    step: u32,
    splats: Arc<Splats>,
    /// Empty where none were refined.
    poses: Vec<RefinedPose>,
    appearance: Appearance,
}

impl Kept {
    /// Of a run that has come no further.
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
            launch: Launch::default(),
            failure: None,
            unsaved: None,
            learnt: None,
            kept: None,
            broken: None,
            lost: None,
            saved_step: None,
            last: Instant::now(),
            last_took_seconds: 0.0,
        }
    }

    /// Keeps the splats that a run begins with, after `step` steps.
    pub(crate) fn begin_with(&mut self, step: u32, splats: &Splats) {
        self.kept = Some(Kept {
            step,
            splats: Arc::new(splats.clone()),
            poses: Vec::new(),
            appearance: Appearance::default(),
        });
    }

    /// Where a run came to whose engine has failed.
    pub(crate) fn failed_outcome(&self) -> Option<Outcome> {
        let ending = |kept: &Kept| self.lost.unwrap_or(Ending::Failed(kept.step));
        self.failed().map(|kept| kept.outcome(ending(kept)))
    }

    /// The step of the splats of such a run.
    pub(crate) fn failed_step(&self) -> Option<u32> {
        self.failed().map(|kept| kept.step)
    }

    /// The splats of a run whose engine has failed.
    pub(crate) fn failed_splats(&self) -> Option<&Splats> {
        self.failed().map(|kept| kept.splats.as_ref())
    }

    /// The poses that go with them.
    pub(crate) fn failed_poses(&self) -> Option<&[RefinedPose]> {
        self.failed().map(|kept| kept.poses.as_slice())
    }

    /// What such a run has learnt of its photos' appearance.
    pub(crate) fn failed_appearance(&self) -> Option<&Appearance> {
        self.failed().map(|kept| &kept.appearance)
    }

    fn failed(&self) -> Option<&Kept> {
        self.kept.as_ref().filter(|_| self.failure.is_some())
    }
}

impl Trainer {
    /// Lets a run go on from a checkpoint: on the same device bit for bit as if it had never stopped.
    /// Only when checkpoints are made (`config.checkpoint_every`, `.checkpoint_minutes`) may have been
    /// changed in it.
    ///
    /// # Errors
    /// Another capture, and as [`Trainer::new`].
    pub fn resume(
        dataset: &Dataset,
        checkpoint: Checkpoint,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        checkpoint.config.validate()?;
        let capture = CaptureIdentity::of(dataset);
        checkpoint.capture.check(&capture)?;
        let is_unchecked = checkpoint.capture.views.is_empty() && !capture.views.is_empty();
        let chosen = Chosen::of(dataset, &checkpoint.config)?;
        check_appearance(&checkpoint, chosen.train.len())?;
        let step = checkpoint.step;
        let mut trainer = Self::with_views(dataset, checkpoint.config, engine, &chosen, step)?;
        trainer
            .engine
            .upload(&checkpoint.splats, Some(&checkpoint.state))?;
        trainer.gaussians = checkpoint.splats.len() as u64;
        let mut splats = checkpoint.splats;
        smoothing::fuse(&mut splats, &checkpoint.state.smoothing);
        trainer.saving.begin_with(step, &splats);
        trainer.saving.launch = checkpoint.launch;
        trainer.watch.rows = checkpoint.watched;
        trainer.watch.best = checkpoint.best;
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
                "the run began on {then}: on {now} it goes on, but not bit for bit as it would have"
            ));
        }
        trainer.history = checkpoint.history;
        for row in &trainer.history.losses {
            trainer.smoothed_loss.push(f64::from(row.loss));
        }
        let seconds = &mut trainer.history.seconds;
        trainer.clock = Clock::at(seconds.train);
        seconds.setup += started.elapsed().as_secs_f64();
        Ok(trainer)
    }

    /// Waits for every step enqueued, and copies everything that the run needs to go on.
    ///
    /// # Errors
    /// What the engine cannot do.
    pub fn checkpoint(&mut self) -> Result<Checkpoint> {
        self.wait()?;
        let (splats, state) = self.engine.download()?;
        Ok(Checkpoint {
            step: self.step,
            config: self.config.clone(),
            capture: self.saving.capture.clone(),
            launch: self.saving.launch.clone(),
            device: self.device(),
            history: self.history.clone(),
            splats,
            state,
            watched: self.watch.rows.clone(),
            best: self.watch.best.clone(),
        })
    }

    pub(crate) fn checkpoint_is_due(&self, observer: &dyn Observer) -> bool {
        if !observer.saves_checkpoints() && !self.has_queue {
            return false;
        }
        let every = self.config.checkpoint_every;
        let least = 60.0 * self.config.checkpoint_minutes;
        let waited = self.saving.last.elapsed().as_secs_f64();
        every > 0 && self.step.is_multiple_of(every)
            || least > 0.0 && waited >= least.max(SHARE * self.saving.last_took_seconds)
    }

    /// Makes a checkpoint and has it saved. One that cannot be saved does not end the run.
    pub(crate) fn save(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.drain(observer)?;
        // What is broken must not replace what is not.
        if self.bad_end.is_some() || self.gaussians == 0 {
            return Ok(());
        }
        let is_new = self.saving.saved_step != Some(self.step);
        if !observer.saves_checkpoints() || !is_new {
            self.gaussians = self.copy()?.len() as u64;
            return Ok(());
        }
        let started = Instant::now();
        let checkpoint = self.checkpoint()?;
        self.gaussians = checkpoint.splats.len() as u64;
        if self.is_lost(&checkpoint.splats) {
            return Ok(());
        }
        let saved = observer.save_checkpoint(&checkpoint);
        observer.on_checkpoint(self.step, &saved);
        self.saving.saved_step = saved.is_ok().then_some(self.step);
        self.saving.unsaved = saved.err();
        let Checkpoint {
            mut splats, state, ..
        } = checkpoint;
        smoothing::fuse(&mut splats, &state.smoothing);
        self.keep(Arc::new(splats), state.poses, state.appearance, started);
        Ok(())
    }

    /// What the engine has learnt of the photos' appearance, if the run asks for it.
    pub(crate) fn learnt(&mut self) -> Result<Appearance> {
        match &self.saving.learnt {
            Some(learnt) => Ok(learnt.clone()),
            None if self.config.appearance.is_on() => self.engine.appearance(),
            None => Ok(Appearance::default()),
        }
    }

    /// Where the engine has refined the poses to; none where no step has refined any.
    pub(crate) fn poses(&mut self) -> Result<Vec<RefinedPose>> {
        self.engine.poses()
    }

    /// Copies the splats with the photos' appearance and poses, to be kept if the device may be lost; gives
    /// them too, as files hold them.
    pub(crate) fn copy(&mut self) -> Result<Arc<Splats>> {
        let started = Instant::now();
        let splats = Arc::new(self.engine.fused_splats()?);
        if self.is_lost(&splats) {
            return Ok(splats);
        }
        let (poses, appearance) = (self.poses()?, self.learnt()?);
        self.keep(Arc::clone(&splats), poses, appearance, started);
        Ok(splats)
    }

    /// [`Self::copy`] beside a scoring, which has waited for the engine: if that costs no more than half of
    /// what checkpoints may, so that a run whose numbers are lost loses little.
    pub(crate) fn copy_if_cheap(&mut self) -> Result<()> {
        let waited = self.saving.last.elapsed().as_secs_f64();
        if waited >= 2.0 * SHARE * self.saving.last_took_seconds {
            self.copy()?;
        }
        Ok(())
    }

    /// Notes what an engine found of its parameters after `step`.
    pub(crate) fn look_for_lost(&mut self, found: Option<NotFinite>, step: u32) {
        if broken::is_lost(found, self.gaussians) {
            self.saving.broken = self.saving.broken.or(found);
            self.bad_end.get_or_insert(Ending::NonFinite(step));
        }
    }

    /// Whether a copy of the splats shows that the run is lost; then it ends.
    fn is_lost(&mut self, splats: &Splats) -> bool {
        let found = NotFinite::of(splats);
        self.look_for_lost(found, self.step);
        broken::is_lost(found, splats.len() as u64)
    }

    /// Where a run came to whose numbers were lost: to the last copy from before.
    pub(crate) fn lost(&mut self) -> Option<Outcome> {
        let is_of_numbers =
            |e: &Ending| matches!(e, Ending::NonFinite(_) | Ending::NonFiniteLoss(_));
        let ending = self.bad_end.filter(is_of_numbers)?;
        let error = broken::error(ending, self.saving.broken, &self.config);
        self.saving.failure = Some(error);
        self.saving.lost = Some(ending);
        let outcome = self.saving.failed_outcome()?;
        self.gaussians = outcome.gaussians;
        Some(outcome)
    }

    fn keep(
        &mut self,
        splats: Arc<Splats>,
        poses: Vec<RefinedPose>,
        appearance: Appearance,
        started: Instant,
    ) {
        self.saving.kept = Some(Kept {
            step: self.step,
            splats,
            poses,
            appearance,
        });
        let took = started.elapsed().as_secs_f64();
        self.saving.last = Instant::now();
        self.saving.last_took_seconds = took;
        self.history.seconds.checkpoints += took;
    }

    /// Ends a run whose engine has failed with the best splats there are.
    pub(crate) fn rescue(&mut self, error: Error, observer: &mut dyn Observer) -> Result<Outcome> {
        // The device may still answer: then nothing is lost. It makes no checkpoint: a round of density
        // control may be missing.
        if let Ok(splats) = self.engine.fused_splats()
            && !splats.is_empty()
        {
            // Of these reports only the steps matter now.
            let _ = self.collect(observer);
            let appearance = self.learnt().unwrap_or_default();
            let poses = self.poses().unwrap_or_default();
            self.saving.kept = Some(Kept {
                step: self.reported,
                splats: Arc::new(splats),
                poses,
                appearance,
            });
        }
        // What the run began with is not worth a file.
        let kept = self.saving.kept.as_ref().filter(|kept| kept.step > 0);
        let Some(kept) = kept else {
            return Err(error);
        };
        let outcome = kept.outcome(Ending::Failed(kept.step));
        self.gaussians = outcome.gaussians;
        self.saving.failure = Some(error);
        Ok(outcome)
    }
}

/// A run that learns appearances has one for each photo it trains on, from its first step on.
fn check_appearance(checkpoint: &Checkpoint, photos: usize) -> Result<()> {
    let (held, asked) = (&checkpoint.state.appearance, &checkpoint.config.appearance);
    let expected = match asked.is_on() && checkpoint.step > 0 {
        true => (asked.grid, photos),
        false => ([0; 3], 0),
    };
    if (held.cells, held.views()) == expected {
        return Ok(());
    }
    Err(
        Error::input("the checkpoint's appearance is not that of its photos and configuration")
            .hint("another program has written it: use the checkpoint as the run left it"),
    )
}

/// What of a device's description changes results: not the number of threads.
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
