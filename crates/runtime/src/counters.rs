//! Counts the host's calls to the device for [`Counters`]. Work that bypasses [`Gpu`](crate::Gpu) and goes straight to
//! wgpu's queue is not counted; the pool, which creates the buffers, counts them.

pub use dapple_profile::Counters;
use std::sync::atomic::{AtomicU64, Ordering};

/// Running counts for [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    submissions: AtomicU64,
    dispatches: AtomicU64,
    waits: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
    copies: AtomicU64,
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
            // The pool counts them.
            buffers_created: 0,
            bindings_created: get(&self.bindings_created),
        }
    }
}

fn add(cell: &AtomicU64, count: u64) {
    cell.fetch_add(count, Ordering::Relaxed);
}
