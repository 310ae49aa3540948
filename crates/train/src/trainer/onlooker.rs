//! What somebody who looks on between two steps may do: render, and take their time. Not a bit of the run changes.

use super::run::Run;
use dapple_engine::{Engine, RenderSettings};
use dapple_scene::{Result, Splats};
use glam::DVec3;
use std::time::Instant;

/// A run between two steps: see [`crate::Observer::between_steps`].
pub struct Onlooker<'a> {
    run: &'a mut Run,
}

impl<'a> Onlooker<'a> {
    pub(super) fn of(run: &'a mut Run) -> Self {
        Self { run }
    }

    /// Steps enqueued so far.
    pub fn step(&self) -> u32 {
        self.run.state.step
    }

    /// Steps of the run, as it stands.
    pub fn steps(&self) -> u32 {
        self.run.config().last_step()
    }

    /// The local origin that the splats count from: [`dapple_scene::Dataset::origin`].
    pub fn origin(&self) -> DVec3 {
        self.run.origin
    }

    /// Waits for the steps on their way, and hands out a copy of the splats, as files hold them. What is done with
    /// it counts as saving.
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

    /// Waits for the steps on their way: that is training time.
    fn wait(&mut self) -> Result<()> {
        let state = &mut self.run.state;
        state.clock.resume();
        let done = self.run.engine.finish();
        state.clock.pause();
        state.history.seconds.train = state.clock.seconds();
        done
    }

    /// Waits for the steps on their way, and hands out the engine with the settings that finished splats are
    /// rendered with. What is done with it is not training time, and must change nothing that the engine holds.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn look<T>(
        &mut self,
        with: impl FnOnce(&mut dyn Engine, &RenderSettings) -> T,
    ) -> Result<T> {
        self.wait()?;
        let started = Instant::now();
        let settings = self.run.schedule.render_settings();
        let result = with(self.run.engine.as_mut(), &settings);
        self.run.state.history.seconds.view += started.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Lets the run rest while `resting` takes: not training time either.
    pub fn rest<T>(&mut self, resting: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = resting();
        self.run.state.history.seconds.view += started.elapsed().as_secs_f64();
        result
    }
}
