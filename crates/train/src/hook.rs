//! Hooks of a run: code that accompanies the steps and is not part of them. Examples are the step rate controller,
//! validation, extension checks, scoring, viewers, the run folder and checkpoints.
//!
//! 1. After each step every hook is called ([`RunHook::after_step`]), in the order of `trainer/hooks.rs`. It may wait
//!    for the engine, copy, render and score ([`PausedRun`]). It cannot change a number of a step: a run is
//!    bit-identical with and without the hook.
//! 2. A hook changes later steps only by returning [`Next::Amend`]. The trainer appends the amendment to the plan
//!    before it calls the next hook, and the plan repeats it bit for bit.
//! 3. Every hook receives the events of the run ([`RunHook::on`]).
//!
//! A hook of your own is the argument of [`crate::Trainer::run`], or is added by [`crate::Trainer::with_hook`].

use crate::event::Event;
use crate::plan::Change;
use crate::{Best, PausedRun, ShardPlace};
use dapple_scene::Result;
use std::sync::Arc;

/// A hook of a run. Every method except [`Self::name`] has a default that does nothing.
///
/// ```
/// use dapple_scene::Result;
/// use dapple_train::{Event, RunHook};
///
/// /// Records the loss of each step.
/// #[derive(Default)]
/// struct Losses(Vec<f32>);
///
/// impl RunHook for Losses {
///     fn name(&self) -> &'static str {
///         "losses"
///     }
///
///     fn on(&mut self, event: &Event<'_>) -> Result<()> {
///         if let Event::Step(progress) = event {
///             self.0.push(progress.loss);
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait RunHook {
    /// Returns the name of the hook, in lower case.
    fn name(&self) -> &'static str;

    /// Returns the values that the trainer makes for this hook.
    fn needs(&self) -> DeviceRequirements {
        DeviceRequirements::default()
    }

    /// Receives an event. An error of [`Event::Checkpoint`] is reported as [`Event::Saved`]; any other error ends the
    /// run.
    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        let _ = event;
        Ok(())
    }

    /// Called after a step and its density control are enqueued. They may not be done. An error ends the run.
    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let _ = run;
        Ok(Next::Continue)
    }

    /// Called before each step; `true` ends the run with [`crate::Ending::Stopped`].
    fn should_stop(&self) -> bool {
        false
    }

    /// Returns where the trainer writes the parts of a model that several devices share, before it sends the checkpoint
    /// or the state of the finished run. `None`: it holds all moments in memory, and has no
    /// [`shards`](crate::Checkpoint::shards).
    ///
    /// # Errors
    /// Reported as an error of [`Event::Checkpoint`].
    fn shard_place(&self, of: CheckpointKind) -> Result<Option<ShardPlace>> {
        let _ = of;
        Ok(None)
    }

    /// Called when all steps are done. Returns the splats that the run ends with instead of its last ones, if they are
    /// better.
    fn final_splats(&mut self) -> Option<Arc<Best>> {
        None
    }
}

/// Kinds of checkpoints that hooks receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// That of [`Event::Checkpoint`].
    OfSteps,
    /// That of [`Event::FinalState`].
    Final,
}

/// Action of the trainer after a call of a hook, before the next hook is called.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Calls the next hook.
    Continue,
    /// Amends the plan for the steps from here on.
    Amend(Change),
    /// Makes a checkpoint, and calls this hook again.
    Checkpoint,
}

/// Values that the trainer makes only for hooks that need them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceRequirements {
    /// Pictures of the last scoring, for [`Event::Pictures`].
    pub pictures: bool,
    /// Checkpoints, for [`Event::Checkpoint`].
    pub checkpoints: bool,
    /// State of the finished run, for [`Event::FinalState`].
    pub final_state: bool,
}

/// Hook that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl RunHook for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }
}
