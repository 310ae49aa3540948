//! Steps of a run: enqueues them one after the other, and processes the reports of finished steps.

use super::run::Run;
use crate::event::Event;
use crate::{Ending, LossRow, StepProgress};
use dapple_engine::{EngineExt, Report, StepReport, ViewId};
use dapple_scene::{Error, Photo, Result};
use std::sync::Arc;

impl Run {
    /// Returns the view of the next step, and its photo if the engine does not hold it. Waiting for a photo counts as
    /// training time.
    ///
    /// # Errors
    /// A photo cannot be read. The step was not enqueued: the run can continue after the fault is fixed.
    pub(super) fn next_photo(&mut self) -> Result<(ViewId, Option<Arc<Photo>>)> {
        self.state.clock.resume();
        self.photos.of_step(self.state.step + 1)
    }

    /// Enqueues one step on the result of [`Self::next_photo`], and processes the reports of finished steps.
    pub(super) fn advance(&mut self, (view, photo): (ViewId, Option<Arc<Photo>>)) -> Result<()> {
        let step = self.state.step + 1;
        if let Some(photo) = photo {
            self.engine.put_photo(view, photo)?;
        }
        let last = self.last_step();
        self.photos
            .announce_after(step, last, self.engine.as_mut())?;
        self.engine.step(view, &self.schedule.step_settings(step))?;
        if let Some(plan) = self.schedule.densify_plan(step) {
            self.engine.densify(&plan)?;
        }
        self.state.step = step;
        self.collect()?;
        self.state.has_queue |= self.state.reported < self.state.step;
        self.stop_the_clock();
        Ok(())
    }

    /// Waits until every step has reported, which counts as training time.
    pub(crate) fn drain(&mut self) -> Result<()> {
        if self.state.failure.is_some() {
            return Ok(());
        }
        self.state.clock.resume();
        self.engine.finish()?;
        self.collect()?;
        self.stop_the_clock();
        if self.state.reported < self.state.step {
            return Err(Error::internal(format!(
                "the engine has not reported step {}",
                self.state.reported + 1
            )));
        }
        Ok(())
    }

    fn stop_the_clock(&mut self) {
        let state = &mut self.state;
        state.clock.pause();
        state.history.seconds.train = state.clock.seconds();
    }

    /// Processes the reports of finished steps, which become events.
    pub(crate) fn collect(&mut self) -> Result<()> {
        let reports = self.engine.poll()?;
        let is_step = |report: &&Report| matches!(report, Report::Step(_));
        let arrived = reports.iter().filter(is_step).count();
        self.state.clock.arrived(arrived);
        for report in reports {
            match report {
                Report::Step(done) => self.take_step(&done),
                Report::Densify(done) => {
                    let state = &mut self.state;
                    state.gaussians = done.total;
                    if done.total == 0 {
                        state.bad_end.get_or_insert(Ending::NoGaussians(done.step));
                    }
                    state.history.densify.push(done);
                    self.events.push(Event::Densify(done));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_step(&mut self, done: &StepReport) {
        let state = &mut self.state;
        state.reported = done.step;
        state.gaussians = done.counts.gaussians;
        state.history.cap.take(&done.counts);
        if !done.loss.is_finite() {
            state
                .bad_end
                .get_or_insert(Ending::NonFiniteLoss(done.step));
        }
        self.look_for_lost(done.not_finite, done.step);
        self.state.smoothed_loss.push(f64::from(done.loss));
        let progress = self.progress(done.step, done.loss);
        self.state.history.losses.push(LossRow {
            step: done.step,
            loss: done.loss,
            gaussians: done.counts.gaussians,
            steps_per_second: progress.steps_per_second,
        });
        self.events.push(Event::Step(progress));
    }

    fn progress(&self, step: u32, loss: f32) -> StepProgress {
        let steps = self.last_step();
        let seconds = self.state.clock.seconds_per_step();
        StepProgress {
            step,
            steps,
            loss,
            smoothed_loss: self.state.smoothed_loss.mean() as f32,
            gaussians: self.state.gaussians,
            steps_per_second: if seconds > 0.0 { 1.0 / seconds } else { 0.0 },
            eta_seconds: seconds * f64::from(steps.saturating_sub(step)),
        }
    }
}
