//! Step hook of whole-run validation: measures photos that are withheld for the whole run: [`mod@crate::watch`].

use super::companion::Companion;
use super::run::Run;
use crate::validation::Validation;
use crate::{Best, Checkpoint, Observer};
use dapple_scene::Result;
use std::sync::Arc;
use std::time::Instant;

impl Companion for Validation {
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()> {
        if !looks_now(self, run) {
            return Ok(());
        }
        run.drain(observer)?;
        if !run.has_finite_state() {
            return Ok(());
        }
        let started = Instant::now();
        let settings = run.schedule.render_settings();
        self.validate(run.state.step, run.engine.as_mut(), &settings)?;
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn ends_with(&mut self) -> Option<Arc<Best>> {
        self.better_than_last()
    }

    fn add_to(&self, checkpoint: &mut Checkpoint) {
        checkpoint.watched.clone_from(&self.rows);
        checkpoint.best.clone_from(&self.best);
    }

    fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.rows = std::mem::take(&mut checkpoint.watched);
        self.best = checkpoint.best.take();
    }
}

/// Returns true if validation is due after this step. After a change of pace the place in the schedule counts, so that
/// a run with the recorded configuration measures at the same steps.
fn looks_now(watch: &Validation, run: &Run) -> bool {
    let config = run.config();
    if config.step_rate_log.is_empty() {
        return watch.is_due(run.state.step, config.last_step());
    }
    let mut places = run.schedule.places(run.state.step);
    places.any(|place| watch.is_due(place, config.steps))
}
