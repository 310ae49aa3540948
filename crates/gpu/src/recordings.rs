//! The command lists of an engine, in one map: the dispatches of a [`Plan`] in a permutation.
//!
//! 1. A command list is recorded at its first use. A plan that consists of parts is composed of their lists, so that
//!    permutations share equal parts: a part depends only on the bits that it understands.
//! 2. A command list is valid while its dependencies do not change: the generations of buffers, and the other names
//!    that passes note. Stale lists are dropped at the next request, or when the engine's buffers have grown, because a
//!    list keeps its buffers alive.

use crate::buffers::Uses;
use crate::passes::{Bits, BufferSizes};
use crate::plans::Plan;
use crate::recorder::Recorder;
use crate::{Buffers, Context};
use dapple_runtime::CommandList;
use dapple_scene::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// Key of a command list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    plan: Plan,
    bits: Bits,
    /// Photo slot; 0 if the plan reads no photo.
    slot: usize,
}

impl Key {
    /// Creates the key of a plan in a permutation, on the photo in this slot if the plan reads a photo.
    pub fn new(plan: Plan, bits: Bits, slot: usize) -> Self {
        Self {
            plan,
            bits: bits & plan.understands(),
            slot: if plan.has_photo() { slot } else { 0 },
        }
    }
}

#[derive(Debug)]
struct Made {
    recording: Arc<CommandList>,
    uses: Uses,
}

/// Inputs of command lists.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The device, and its kernels.
    pub context: &'a Context,
    /// The buffers.
    pub buffers: &'a Buffers,
    /// Inputs of the buffer sizes.
    pub sizes: &'a BufferSizes,
}

/// The command lists of an engine.
#[derive(Debug, Default)]
pub struct Recordings {
    made: HashMap<Key, Made>,
    /// The last generation of buffers for which all of these are valid.
    checked: u64,
}

impl Recordings {
    /// Returns the command list of `key`, recorded now if there is no valid one.
    ///
    /// # Errors
    /// A tensor is missing; the driver refuses a kernel; no memory for scratch.
    pub fn get(&mut self, scope: Scope<'_>, key: Key) -> Result<Arc<CommandList>> {
        self.drop_stale(scope.buffers);
        if let Some(made) = self.made.get(&key) {
            return Ok(Arc::clone(&made.recording));
        }
        let mut recorder = Recorder::new(scope.context, scope.buffers, key.bits);
        recorder = recorder.over(scope.sizes, key.slot);
        for &part in key.plan.parts() {
            let part = Key::new(part, key.bits, key.slot);
            let recording = self.get(scope, part)?;
            if let Some(made) = self.made.get(&part) {
                recorder.append(&recording, &made.uses);
            }
        }
        recorder.plan(key.plan)?;
        let (recording, uses) = recorder.finish_with_uses();
        let recording = Arc::new(recording);
        let made = Made {
            recording: Arc::clone(&recording),
            uses,
        };
        self.made.insert(key, made);
        Ok(recording)
    }

    /// Drops command lists that are no longer valid.
    pub fn drop_stale(&mut self, buffers: &Buffers) {
        if self.checked != buffers.now() {
            self.made.retain(|_, made| made.uses.are_current(buffers));
            self.checked = buffers.now();
        }
    }

    /// Returns the command list of a step on a photo in this slot, if there is a valid one.
    pub fn of_step(&self, slot: usize, buffers: &Buffers) -> Option<&CommandList> {
        let is_it = |key: &Key| key.plan == Plan::Step && key.slot == slot;
        let mut steps: Vec<_> = self.made.iter().filter(|(key, _)| is_it(key)).collect();
        steps.sort_by_key(|(key, _)| key.bits);
        let mut held = steps
            .iter()
            .filter(|(_, made)| made.uses.are_current(buffers));
        held.next().map(|(_, made)| &*made.recording)
    }
}
