//! [`CommandList::submit_batched`]: batched submissions of small command lists, because each submission costs the host
//! several microseconds.
//!
//! 1. A device keeps one encoder open, with a pass in it. Command lists are encoded into it in the order in which they
//!    are run.
//! 2. The first command list is submitted at once, so that a single one does not wait. The next submission holds one
//!    list, then two, four and so on, at most [`MOST`]. After a pause the count restarts at one.
//! 3. Every other access to the queue (writes, reads, waits, polls, submissions, a program that requests it) first
//!    submits the open encoder, so that the device executes all calls in their order.
//!
//! On a device that another part of the program has opened, everything is submitted at once: the runtime does not see
//! the submissions of that part.

use crate::counters::Tally;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum of command lists per submission.
const MOST: usize = 32;
/// Pause after which a command list is submitted at once.
const PAUSE: Duration = Duration::from_millis(1);

/// Commands that are encoded and not submitted.
#[derive(Debug, Default)]
pub(crate) struct SubmissionBatch(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    encoder: Option<wgpu::CommandEncoder>,
    /// Pass of the encoder: ends before it.
    pass: Option<wgpu::ComputePass<'static>>,
    /// Command lists in the encoder.
    held: usize,
    /// Command lists of the submission before.
    before: usize,
    last: Option<Instant>,
}

impl SubmissionBatch {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits the pending commands.
    pub(crate) fn flush(&self, queue: &wgpu::Queue, tally: &Tally) {
        // The lock is held during the submission: another thread must not overtake.
        let mut open = self.lock();
        open.before = 0;
        open.submit(queue, tally);
    }

    /// Adds a command list to the pending commands, and submits them if they are enough. `make` creates an encoder,
    /// `encode` appends the list to it.
    pub(crate) fn add(
        &self,
        (queue, tally): (&wgpu::Queue, &Tally),
        make: impl FnOnce() -> wgpu::CommandEncoder,
        encode: impl FnOnce(&mut wgpu::CommandEncoder, &mut Option<wgpu::ComputePass<'static>>),
    ) {
        let mut open = self.lock();
        let now = Instant::now();
        let paused = open.last.is_none_or(|last| now - last > PAUSE);
        open.last = Some(now);
        let Open { encoder, pass, .. } = &mut *open;
        encode(encoder.get_or_insert_with(make), pass);
        open.held += 1;
        if paused || open.held >= open.before.clamp(1, MOST) {
            open.before = if paused { 0 } else { open.before + open.held };
            open.submit(queue, tally);
        }
    }
}

impl Open {
    fn submit(&mut self, queue: &wgpu::Queue, tally: &Tally) {
        self.pass = None;
        if let Some(encoder) = self.encoder.take() {
            self.held = 0;
            tally.submitted();
            queue.submit([encoder.finish()]);
        }
    }
}
