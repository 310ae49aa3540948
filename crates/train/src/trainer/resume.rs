//! Checkpoints of a trainer, and resuming from a checkpoint.
//!
//! [`Trainer::resume`] uploads the whole state. Views, rates and random numbers follow from seed and step, so that the
//! next step is that of an uninterrupted run.

use super::Trainer;
use super::hooks::Callers;
use crate::clock::Clock;
use crate::event::Event;
use crate::features;
use crate::hook::CheckpointKind;
use crate::saving::Kept;
use crate::sky::Sky;
use crate::views::Chosen;
use crate::{CaptureIdentity, Checkpoint, Outcome, RunOrigin, ShardPlace};
use dapple_device::BoxedEngine;
use dapple_engine::{Engine, EngineExt, RefinedPose, ViewState, filter_3d};
use dapple_scene::{Dataset, Error, Result, Splats};
use std::time::Instant;

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
        engine: BoxedEngine,
    ) -> Result<Self> {
        let started = Instant::now();
        checkpoint.config.validate()?;
        let capture = CaptureIdentity::from_dataset(dataset);
        checkpoint.capture.check(&capture)?;
        let is_unchecked = checkpoint.capture.views.is_empty() && !capture.views.is_empty();
        let chosen = Chosen::new(dataset, &checkpoint.config)?;
        check_appearance(&checkpoint, chosen.train.len())?;
        let (step, config) = (checkpoint.step, checkpoint.config.clone());
        let sky = Sky::of_run(dataset, &chosen, &config)?;
        let chosen = (&chosen, sky.as_ref());
        let mut trainer = Self::with_views(dataset, config, engine, chosen, step)?;
        trainer.hooks.take_from(&mut checkpoint);
        let run = &mut trainer.run;
        checkpoint = upload(checkpoint, run.engine.as_mut())?;
        run.state.gaussians = checkpoint.splats.len() as u64;
        let mut splats = checkpoint.splats;
        filter_3d::bake(&mut splats, &checkpoint.state.filter_3d);
        trainer.hooks.saving.begin_with(step, splats);
        trainer.hooks.saving.launch = checkpoint.launch;
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
        self.checkpoint_at(None)?
    }

    /// Works like [`Self::checkpoint`], and writes the parts of a shared model to the place of the hooks. The inner error
    /// is that of a file.
    pub(super) fn checkpoint_for(
        &mut self,
        kind: CheckpointKind,
        callers: Callers<'_, '_>,
    ) -> Result<Result<Checkpoint>> {
        match self.hooks.shard_place(kind, callers) {
            Ok(place) => self.checkpoint_at(place.as_ref()),
            Err(error) => Ok(Err(error)),
        }
    }

    fn checkpoint_at(&mut self, place: Option<&ShardPlace>) -> Result<Result<Checkpoint>> {
        let made = self.hooks.saving.checkpoint(&mut self.run, place)?;
        Ok(made.map(|mut checkpoint| {
            self.hooks.add_to(&mut checkpoint);
            checkpoint
        }))
    }

    /// Makes a checkpoint and passes it to the hooks. A checkpoint that cannot be saved does not end the run.
    pub(super) fn save(&mut self, callers: Callers<'_, '_>) -> Result<()> {
        self.run.drain()?;
        self.send_events(callers)?;
        let step = self.run.state.step;
        // A non-finite state must not replace a finite one.
        if !self.run.has_finite_state() || self.run.state.gaussians == 0 {
            return Ok(());
        }
        let saving = &mut self.hooks.saving;
        if !saving.is_stored || saving.saved_step == Some(step) {
            self.run.state.gaussians = saving.copy(&mut self.run)?.len() as u64;
            return Ok(());
        }
        let started = Instant::now();
        let checkpoint = match self.checkpoint_for(CheckpointKind::OfSteps, callers)? {
            Ok(checkpoint) => checkpoint,
            Err(error) => return self.report_unsaved(error, callers),
        };
        self.run.state.gaussians = checkpoint.splats.len() as u64;
        if self.run.is_lost(&checkpoint.splats) {
            return Ok(());
        }
        let saved = self.hooks.send(&Event::Checkpoint(&checkpoint), callers);
        self.hooks.send(&Event::Saved(step, &saved), callers)?;
        let saving = &mut self.hooks.saving;
        saving.saved_step = saved.is_ok().then_some(step);
        saving.unsaved = saved.err();
        saving.keep_checkpoint(checkpoint, started, &mut self.run);
        Ok(())
    }

    /// Reports that the parts of a checkpoint could not be written. The run continues.
    fn report_unsaved(&mut self, error: Error, callers: Callers<'_, '_>) -> Result<()> {
        let saved = Err(error);
        let step = self.run.state.step;
        self.hooks.send(&Event::Saved(step, &saved), callers)?;
        let saving = &mut self.hooks.saving;
        saving.unsaved = saved.err();
        self.run.state.gaussians = saving.copy(&mut self.run)?.len() as u64;
        Ok(())
    }

    /// Records in checkpoints how the run was started.
    pub fn set_launch(&mut self, launch: RunOrigin) {
        self.hooks.saving.launch = launch;
    }

    /// Returns the outcome of a run whose engine has failed.
    pub(crate) fn failed_outcome(&self) -> Option<Outcome> {
        self.failure()?;
        self.hooks.saving.failed_outcome()
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
        self.hooks.saving.kept.as_ref()
    }

    /// Returns the current splats, with the 3D filters of an anti-aliased run baked in, as in files and viewers. After
    /// the engine has failed, returns the recovered splats.
    pub fn splats(&mut self) -> Result<Splats> {
        if let Some(kept) = self.failed() {
            return Ok(kept.splats.as_ref().clone());
        }
        self.run.drain()?;
        self.run.engine.fused_splats()
    }

    /// Returns what training has changed of the views: refined poses, and the learned appearance of the photos in
    /// [`Self::train_names`]. After the engine has failed, returns the recovered state.
    pub fn view_state(&mut self) -> Result<ViewState> {
        if let Some(kept) = self.failed() {
            return Ok(kept.views.clone());
        }
        self.run.drain()?;
        self.run.view_state()
    }

    /// Returns the reason why the state of the finished run could not be saved, if it could not.
    pub(crate) fn take_unsaved_state(&mut self) -> Option<Error> {
        self.hooks.saving.unsaved_state.take()
    }

    /// Returns the reason why the last checkpoint could not be saved, if it could not.
    pub(crate) fn take_unsaved(&mut self) -> Option<Error> {
        self.hooks.saving.unsaved.take()
    }
}

/// Uploads the splats and the state of a checkpoint. Moments in files go to an engine that shares its Gaussians part by
/// part.
fn upload(mut checkpoint: Checkpoint, engine: &mut dyn Engine) -> Result<Checkpoint> {
    let layout = checkpoint.layout();
    match (checkpoint.shards.take(), engine.sharing()) {
        (Some(shards), Some(engine)) => {
            let mut open = shards.open(false)?;
            engine.upload_by_parts(shards.total(), &mut |part| open.read_part(part, layout))?;
        }
        (shards, _) => {
            checkpoint.shards = shards;
            checkpoint = checkpoint.with_moments()?;
            engine.upload(&checkpoint.splats, Some(&checkpoint.state))?;
        }
    }
    Ok(checkpoint)
}

/// Checks that a run with appearance has one for each training photo, from its first step on.
fn check_appearance(checkpoint: &Checkpoint, photos: usize) -> Result<()> {
    let held = features::photos(&checkpoint.state.views.sizes());
    let has_steps = checkpoint.step > 0;
    if held == features::expected_photos(&checkpoint.config, has_steps, photos) {
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
