//! Paused run: access to a run between two steps, for rendering and pauses. The result of the run does not change.

use super::run::Run;
use dapple_device::BoxedEngine;
use dapple_engine::{EngineExt, RenderSettings};
use dapple_scene::{Result, Splats};
use glam::DVec3;
use std::ops::RangeInclusive;
use std::time::Instant;

/// A run between two steps: see [`crate::RunHook::after_step`].
pub struct PausedRun<'a> {
    run: &'a mut Run,
}

impl<'a> PausedRun<'a> {
    pub(super) fn new(run: &'a mut Run) -> Self {
        Self { run }
    }

    /// Returns the run, for built-in hooks.
    pub(crate) fn run(&mut self) -> &mut Run {
        self.run
    }

    /// Returns the steps enqueued so far.
    pub fn step(&self) -> u32 {
        self.run.state.step
    }

    /// Returns the steps since the last call of hooks: one, unless the configuration sets `views_per_step`.
    pub fn last_batch(&self) -> RangeInclusive<u32> {
        self.run.last_batch()
    }

    /// Returns the steps of the run, as currently planned.
    pub fn steps(&self) -> u32 {
        self.run.last_step()
    }

    /// Returns the local origin of the splats: [`dapple_scene::Dataset::origin`].
    pub fn origin(&self) -> DVec3 {
        self.run.origin
    }

    /// Waits for the steps in flight, and passes a copy of the splats to `with`, as files hold them. The time of `with`
    /// counts as saving.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn save<T>(&mut self, with: impl FnOnce(Splats) -> T) -> Result<T> {
        self.wait()?;
        let started = Instant::now();
        let result = self.run.engine.fused_splats().map(with);
        self.run.state.history.seconds.checkpoints += started.elapsed().as_secs_f64();
        result
    }

    /// Waits for the steps in flight, which counts as training time.
    fn wait(&mut self) -> Result<()> {
        let state = &mut self.run.state;
        state.clock.resume();
        let done = self.run.engine.finish();
        state.clock.pause();
        state.history.seconds.train = state.clock.seconds();
        done
    }

    /// Waits for the steps in flight, and passes the engine to `with` with the render settings of finished splats. The
    /// time of `with` is not training time. `with` must not change the state of the engine.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn with_engine<T>(
        &mut self,
        with: impl FnOnce(&mut BoxedEngine, &RenderSettings) -> T,
    ) -> Result<T> {
        self.wait()?;
        let started = Instant::now();
        let settings = self.run.schedule.render_settings();
        let result = with(&mut self.run.engine, &settings);
        self.run.state.history.seconds.view += started.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Pauses the run while `resting` runs. This is not training time either.
    pub fn rest<T>(&mut self, resting: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = resting();
        self.run.state.history.seconds.view += started.elapsed().as_secs_f64();
        result
    }
}
