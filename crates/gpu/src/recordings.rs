//! The recordings of an engine, in one map: what is submitted for a [`Plan`] in a permutation.
//!
//! 1. A recording is made when it is first asked for. A plan that consists of parts is put together from
//!    their recordings, so that permutations share what is the same in them: a part knows only those bits
//!    that it understands.
//! 2. A recording holds as long as all that it was made of is as it was: buffers by their generations, and
//!    what else passes note. What holds no longer is dropped as soon as anything is asked for, or when the
//!    engine's buffers have grown: a recording keeps the buffers that it is bound to alive.

use crate::buffers::Uses;
use crate::passes::{Bits, Extent, Plan};
use crate::recorder::Recorder;
use crate::{Buffers, Context};
use dapple_runtime::Recording;
use dapple_scene::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// Which recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    plan: Plan,
    bits: Bits,
    /// The photo's slot; 0 where the plan has no photo.
    slot: usize,
}

impl Key {
    /// Of a plan in a permutation, on the photo in this slot where the plan has one.
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
    recording: Arc<Recording>,
    uses: Uses,
}

/// What recordings are made over.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The device, and its kernels.
    pub context: &'a Context,
    /// The buffers.
    pub buffers: &'a Buffers,
    /// What there is room for.
    pub extent: &'a Extent,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Recordings {
    made: HashMap<Key, Made>,
    /// The last generation of buffers that all of these hold for.
    checked: u64,
}

impl Recordings {
    /// The recording of `key`, made if there is none that holds.
    ///
    /// # Errors
    /// A tensor is missing; the driver refuses a kernel; no memory for scratch.
    pub fn get(&mut self, scope: Scope<'_>, key: Key) -> Result<Arc<Recording>> {
        self.drop_stale(scope.buffers);
        if let Some(made) = self.made.get(&key) {
            return Ok(Arc::clone(&made.recording));
        }
        let mut recorder = Recorder::new(scope.context, scope.buffers, key.bits);
        recorder = recorder.over(scope.extent, key.slot);
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

    /// Drops those that hold no longer.
    pub fn drop_stale(&mut self, buffers: &Buffers) {
        if self.checked != buffers.now() {
            self.made.retain(|_, made| made.uses.are_current(buffers));
            self.checked = buffers.now();
        }
    }

    /// A recording of a step on a photo in this slot, if one was made and holds.
    pub fn of_step(&self, slot: usize, buffers: &Buffers) -> Option<&Recording> {
        let is_it = |key: &Key| key.plan == Plan::Step && key.slot == slot;
        let mut steps: Vec<_> = self.made.iter().filter(|(key, _)| is_it(key)).collect();
        steps.sort_by_key(|(key, _)| key.bits);
        let mut held = steps
            .iter()
            .filter(|(_, made)| made.uses.are_current(buffers));
        held.next().map(|(_, made)| &*made.recording)
    }
}
