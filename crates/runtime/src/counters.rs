//! [`Counters`]: what the host asked of the device, counted as it is asked.
//!
//! A step in steady state has `waits`, `copies`, `buffers_created` and `bindings_created` of 0; this is
//! how an engine shows it. Work that goes around [`Gpu`](crate::Gpu), straight to wgpu's queue, is not seen.

use serde::Serialize;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the device was opened; subtract two for what lies between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Times that work was handed to the queue.
    pub submissions: u64,
    /// Dispatches encoded by recordings.
    pub dispatches: u64,
    /// Times that the host waited for the device.
    pub waits: u64,
    /// Bytes copied from host to device; immediates, which travel with the commands, not counted.
    pub bytes_written: u64,
    /// Bytes copied from device to host.
    pub bytes_read: u64,
    /// Copies between host and device, either way.
    pub copies: u64,
    /// Buffers that the driver made.
    pub buffers_created: u64,
    /// Kernels bound to buffers: what recordings are made of.
    pub bindings_created: u64,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            submissions: self.submissions - earlier.submissions,
            dispatches: self.dispatches - earlier.dispatches,
            waits: self.waits - earlier.waits,
            bytes_written: self.bytes_written - earlier.bytes_written,
            bytes_read: self.bytes_read - earlier.bytes_read,
            copies: self.copies - earlier.copies,
            buffers_created: self.buffers_created - earlier.buffers_created,
            bindings_created: self.bindings_created - earlier.bindings_created,
        }
    }
}

/// [`Counters`] while they count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    submissions: AtomicU64,
    dispatches: AtomicU64,
    waits: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
    copies: AtomicU64,
    buffers_created: AtomicU64,
    bindings_created: AtomicU64,
}

impl Tally {
    pub(crate) fn submitted(&self) {
        add(&self.submissions, 1);
    }

    pub(crate) fn dispatched(&self, count: usize) {
        add(&self.dispatches, count as u64);
    }

    pub(crate) fn waited(&self) {
        add(&self.waits, 1);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        add(&self.bytes_written, bytes);
        add(&self.copies, 1);
    }

    pub(crate) fn read(&self, bytes: u64) {
        add(&self.bytes_read, bytes);
        add(&self.copies, 1);
    }

    pub(crate) fn created_buffer(&self) {
        add(&self.buffers_created, 1);
    }

    pub(crate) fn bound(&self) {
        add(&self.bindings_created, 1);
    }

    pub(crate) fn counters(&self) -> Counters {
        let get = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counters {
            submissions: get(&self.submissions),
            dispatches: get(&self.dispatches),
            waits: get(&self.waits),
            bytes_written: get(&self.bytes_written),
            bytes_read: get(&self.bytes_read),
            copies: get(&self.copies),
            buffers_created: get(&self.buffers_created),
            bindings_created: get(&self.bindings_created),
        }
    }
}

fn add(cell: &AtomicU64, count: u64) {
    cell.fetch_add(count, Ordering::Relaxed);
}
