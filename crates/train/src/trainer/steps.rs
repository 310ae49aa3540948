//! One step after the other: what is enqueued, and what reports say of what has finished.

use super::Trainer;
use crate::{Ending, LossRow, Observer, StepProgress};
use dapple_engine::{Report, StepReport};
use dapple_scene::{Error, Result};

/// The engine learns of so many steps beforehand. Packing a photo takes a thread a part of a step; more
/// would only hold memory.
const ANNOUNCED: u32 = 3;

impl Trainer {
    /// Enqueues one step and takes in what has finished.
    pub(super) fn advance(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.clock.resume();
        let step = self.step + 1;
        let view = self.view_ids[self.order.view_at(step)];
        match self.loader.as_ref().map(|loader| loader.take(step)) {
            None => {}
            Some(Ok(photo)) => self.engine.put_photo(view, photo)?,
            Some(Err(error)) => {
                // Nothing of this step was enqueued: the run can go on when the photo is mended.
                self.save(observer)?;
                return Err(error);
            }
        }
        self.announce_after(step)?;
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

    /// Tells the engine of the steps after `step`, so that their photos are on their way meanwhile.
    fn announce_after(&mut self, step: u32) -> Result<()> {
        let last = self.config.last_step().min(step.saturating_add(ANNOUNCED));
        for coming in step.saturating_add(1)..=last {
            let view = self.view_ids[self.announced.view_at(coming)];
            let photo = match &self.loader {
                None => None,
                Some(loader) => match loader.ready(coming) {
                    None => break,
                    photo => photo,
                },
            };
            self.engine.announce(view, photo)?;
        }
        Ok(())
    }

    /// Waits until every step has reported. That is training time too.
    pub(crate) fn drain(&mut self, observer: &mut dyn Observer) -> Result<()> {
        if self.saving.failure.is_some() {
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

    /// Takes in what has finished.
    pub(crate) fn collect(&mut self, observer: &mut dyn Observer) -> Result<()> {
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
        self.look_for_lost(done.not_finite, done.step);
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
