//! Step hooks: code that is called after each step and is not part of it, such as pacing, validation, extension checks
//! and scoring.
//!
//! 1. After each step every hook is called, in the order of [`Companions::all`]. Last is [`crate::saving::Saving`],
//!    which stores the state of the others in checkpoints.
//! 2. A hook may wait for the engine ([`Run::drain`]), copy, render and score. No hook changes a number of a step: a
//!    run is bit-identical with and without it. Only explicit calls change the run. The step rate controller moves the
//!    last step ([`Run::change_pace`]) and extension checks lengthen the run ([`Run::extend`]); the configuration
//!    records both. A run with validation photos may end with earlier splats ([`Companion::ends_with`]).
//!
//! A new hook needs a file with its `impl Companion`, a field of [`Companions`] and its place in [`Companions::all`].

use super::held_out::HeldOut;
use super::run::Run;
use crate::extension::ExtensionHook;
use crate::time_budget::Pacing;
use crate::validation::Validation;
use crate::{Best, Checkpoint, Observer};
use dapple_scene::Result;
use std::sync::Arc;

/// A step hook, described in the module.
pub(crate) trait Companion {
    /// Called after a step and its density control are enqueued. They may not be done.
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()>;

    /// Called when all steps are done. Returns the splats that the run ends with instead of its last ones, if they are
    /// better.
    fn ends_with(&mut self) -> Option<Arc<Best>> {
        None
    }

    /// Stores the state of the hook in a checkpoint.
    fn add_to(&self, checkpoint: &mut Checkpoint) {
        let _ = checkpoint;
    }

    /// Restores the state of the hook from a checkpoint.
    fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        let _ = checkpoint;
    }
}

/// All step hooks except saving.
pub(crate) struct Companions {
    pub(crate) pacing: Pacing,
    pub(crate) watch: Validation,
    pub(crate) extension_hook: ExtensionHook,
    pub(crate) held_out: HeldOut,
}

impl Companions {
    /// Returns the hooks in the order of their calls.
    pub(crate) fn all(&mut self) -> [&mut dyn Companion; 4] {
        [
            &mut self.pacing,
            &mut self.watch,
            &mut self.extension_hook,
            &mut self.held_out,
        ]
    }

    /// Stores the state of all hooks in a checkpoint.
    pub(crate) fn add_to(&mut self, checkpoint: &mut Checkpoint) {
        for companion in self.all() {
            companion.add_to(checkpoint);
        }
    }
}
