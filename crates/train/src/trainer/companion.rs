//! What accompanies a run without being of it: pacing, watching, scoring, saving.
//!
//! 1. After each step every companion is asked, in the order of [`Companions::all`], and last of all
//!    [`crate::saving::Saving`], which puts what the others must remember into checkpoints.
//! 2. A companion may wait for the engine ([`Run::drain`]), copy, render and score. None changes a number of
//!    a step: a run has the same bits with and without it. What changes what a run *is* is said aloud: the
//!    pacer asks for another last step ([`Run::change_pace`]) and photos for a longer run ([`Run::extend`]),
//!    which the configuration notes, and a watched run may end with earlier splats ([`Companion::ends_with`]).
//!
//! Another one is a file with its `impl Companion`, a field of [`Companions`] and its place in
//! [`Companions::all`].

use super::held_out::HeldOut;
use super::run::Run;
use crate::outlook::Asking;
use crate::time_budget::Pacing;
use crate::watch::Watch;
use crate::{Best, Checkpoint, Observer};
use dapple_scene::Result;
use std::sync::Arc;

/// See the module.
pub(crate) trait Companion {
    /// A step and the density control that follows it are enqueued, and may not be done.
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()>;

    /// All steps are done: what the run ends with in place of its last splats, if that is better.
    fn ends_with(&mut self) -> Option<Arc<Best>> {
        None
    }

    /// Puts what it needs to go on into a checkpoint.
    fn add_to(&self, checkpoint: &mut Checkpoint) {
        let _ = checkpoint;
    }

    /// Takes it back.
    fn take_from(&mut self, checkpoint: &mut Checkpoint) {
        let _ = checkpoint;
    }
}

/// All but saving.
pub(crate) struct Companions {
    pub(crate) pacing: Pacing,
    pub(crate) watch: Watch,
    pub(crate) asking: Asking,
    pub(crate) held_out: HeldOut,
}

impl Companions {
    /// In the order they are asked.
    pub(crate) fn all(&mut self) -> [&mut dyn Companion; 4] {
        [
            &mut self.pacing,
            &mut self.watch,
            &mut self.asking,
            &mut self.held_out,
        ]
    }

    /// What all need to go on.
    pub(crate) fn add_to(&mut self, checkpoint: &mut Checkpoint) {
        for companion in self.all() {
            companion.add_to(checkpoint);
        }
    }
}
