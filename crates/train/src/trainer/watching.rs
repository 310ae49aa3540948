//! Hook of whole-run validation: measures photos that are withheld for the whole run: [`mod@crate::validation`].

use super::paused_run::PausedRun;
use super::run::Run;
use crate::hook::{Next, RunHook};
use crate::validation::Validation;
use crate::{Best, Checkpoint};
use dapple_scene::Result;
use std::sync::Arc;
use std::time::Instant;

impl RunHook for Validation {
    fn name(&self) -> &'static str {
        "validation"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let run = run.run();
        if !looks_now(self, run) {
            return Ok(Next::Continue);
        }
        run.drain()?;
        if run.has_finite_state() {
            let started = Instant::now();
            let settings = run.schedule.render_settings();
            self.validate(run.state.step, run.engine.as_mut(), &settings)?;
            run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        }
        Ok(Next::Continue)
    }

    fn final_splats(&mut self) -> Option<Arc<Best>> {
        self.better_than_last()
    }
}

impl Validation {
    /// Stores the results in a checkpoint.
    pub(super) fn add_to(&self, checkpoint: &mut Checkpoint) {
        checkpoint.watched.clone_from(&self.rows);
        checkpoint.best.clone_from(&self.best);
    }

    /// Restores the results from a checkpoint.
    pub(super) fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        self.rows = std::mem::take(&mut checkpoint.watched);
        self.best = checkpoint.best.take();
    }
}

/// Returns true if validation is due after this step. After a change of pace the place in the schedule counts, so that
/// a run that repeats the plan measures at the same steps.
fn looks_now(watch: &Validation, run: &Run) -> bool {
    let plan = run.plan();
    if plan.amendments().step_rates().next().is_none() {
        let last = plan.last_step();
        return run.last_batch().any(|step| watch.is_due(step, last));
    }
    let mut places = run.schedule.places(run.state.step);
    places.any(|place| watch.is_due(place, plan.config().steps))
}
