//! [`Counters`]: counts of the host's calls of a device.
//!
//! A step in steady state has `waits`, `copies`, `buffers_created` and `bindings_created` of 0. With these counters an
//! engine shows that.

use serde::Serialize;
use std::ops::{Add, Sub};

/// Counts since a device was opened. The difference of two gives the counts between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Submissions to the queue.
    pub submissions: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Times that the host waited for the device.
    pub waits: u64,
    /// Bytes copied from host to device, without immediates, which are part of the commands.
    pub bytes_written: u64,
    /// Bytes copied from device to host.
    pub bytes_read: u64,
    /// Copies between host and device, in both directions.
    pub copies: u64,
    /// Buffers that the driver created.
    pub buffers_created: u64,
    /// Kernels bound to buffers.
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

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            submissions: self.submissions + other.submissions,
            dispatches: self.dispatches + other.dispatches,
            waits: self.waits + other.waits,
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_read: self.bytes_read + other.bytes_read,
            copies: self.copies + other.copies,
            buffers_created: self.buffers_created + other.buffers_created,
            bindings_created: self.bindings_created + other.bindings_created,
        }
    }
}
