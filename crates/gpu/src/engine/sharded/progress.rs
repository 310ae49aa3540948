//! [`Progress`]: calls of [`Sharded`](dapple_engine::Sharded) that were begun and not finished.

use super::mail::{GpuShipment, Mail};
use crate::layout;
use crate::ring::RingBuffer;
use dapple_engine::ViewStep;
use dapple_runtime::Readback;
use dapple_scene::{Error, Result};
use std::collections::VecDeque;

/// Reports of commands that are not in the ring of reports, in flight to the host.
#[derive(Debug)]
pub struct Reports(pub Readback<layout::Report>);

impl Reports {
    /// Waits, and returns those from sequence `first` on.
    pub fn of(&mut self, first: u64, count: usize) -> Result<Vec<layout::Report>> {
        let all = self.0.wait()?;
        let entries = (first..).take(count).map(RingBuffer::entry);
        let found = entries.map(|entry| all.get(entry as usize).copied());
        let found: Option<Vec<_>> = found.collect();
        found.ok_or_else(|| Error::internal("the reports of steps could not be read"))
    }
}

/// Projections that were submitted.
#[derive(Debug)]
pub struct Projections {
    /// Number of the first command.
    pub first: u64,
    pub steps: Vec<ViewStep>,
    /// By step, memory for its shipment.
    pub sent: Vec<GpuShipment>,
    pub reports: Reports,
}

/// Steps on views that were submitted.
#[derive(Debug)]
pub struct Begun {
    /// Number of the first command.
    pub first: u64,
    pub steps: Vec<ViewStep>,
    /// By step, the shipments of all parts.
    pub parts: Vec<Vec<GpuShipment>>,
    /// By submitted step, the shipments to all parts.
    pub sums: Vec<Vec<GpuShipment>>,
    pub reports: Reports,
}

/// Steps on this part that were submitted.
#[derive(Debug)]
pub struct Added {
    /// Number of the first command.
    pub first: u64,
    /// By step, true if it checks for non-finite numbers.
    pub checks: Vec<bool>,
    /// `None` if no step checks for them.
    pub reports: Option<Reports>,
}

/// Calls of an engine for others that are in work.
#[derive(Debug, Default)]
pub struct Progress {
    pub mail: Mail,
    /// Calls of [`Sharded::begin_projections`] that were not finished.
    pub projections: VecDeque<Projections>,
    /// Calls of [`Sharded::begin_views`] that were not finished.
    pub begun: VecDeque<Begun>,
    /// Calls of [`Sharded::begin_gradients`] that were not finished.
    pub added: VecDeque<Added>,
    /// Most Gaussians that a view has shown so far.
    pub most_shown: u32,
    /// Number of the next command. These commands are not in the ring of reports: the engine waits for them.
    pub commands: u64,
}

impl Progress {
    /// Returns the first of the next numbers of commands. At most [`layout::RING`] are in work.
    pub fn take_numbers(&mut self, count: usize) -> u64 {
        let first = self.commands;
        self.commands += count as u64;
        first
    }

    /// Returns the number of Gaussians that a view may show, of at most `capacity`, before it is known.
    pub fn expected(&self, capacity: u32) -> u32 {
        match self.most_shown {
            0 => capacity,
            most => most.saturating_add(most / 8).min(capacity),
        }
    }
}
