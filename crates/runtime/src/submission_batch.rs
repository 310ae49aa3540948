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

use crate::link::Link;
use crate::{CommandList, Gpu};
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
}

impl Link {
    /// Returns the queue, after the submission of all pending commands.
    pub(crate) fn queue(&self) -> &wgpu::Queue {
        self.flush();
        &self.queue
    }

    /// Submits the pending commands.
    pub(crate) fn flush(&self) {
        // The lock is held during the submission: another thread must not overtake.
        let mut open = self.soon.lock();
        open.before = 0;
        self.submit_open(&mut open);
    }

    fn submit_open(&self, open: &mut Open) {
        open.pass = None;
        if let Some(encoder) = open.encoder.take() {
            open.held = 0;
            self.tally.submitted();
            self.queue.submit([encoder.finish()]);
        }
    }

    fn submit_batched(&self, recording: &CommandList) {
        let mut open = self.soon.lock();
        let now = Instant::now();
        let paused = open.last.is_none_or(|last| now - last > PAUSE);
        open.last = Some(now);
        let Open { encoder, pass, .. } = &mut *open;
        let encoder = encoder.get_or_insert_with(|| self.encoder());
        recording.encode_onto(encoder, pass);
        open.held += 1;
        if paused || open.held >= open.before.clamp(1, MOST) {
            open.before = if paused { 0 } else { open.before + open.held };
            self.submit_open(&mut open);
        }
    }
}

impl CommandList {
    /// Submits all commands except downloads, in a batch with the command lists before and after, if that saves time.
    /// For command lists that take the device less time than a submission takes the host. All other calls to the device
    /// through [`Gpu`] come after it. The last lists of a sequence may remain pending until then: [`Gpu::flush`]
    /// submits them.
    pub fn submit_batched(&self, gpu: &Gpu) {
        // Parameters and immediates are written ahead of later submissions.
        if gpu.shares_submissions() && !self.takes_parameters() {
            gpu.link().submit_batched(self);
        } else {
            self.submit(gpu, &[]);
        }
    }
}

impl Gpu {
    /// Submits the pending commands of [`CommandList::submit_batched`]. Reads, waits and all other submissions also
    /// submit them.
    pub fn flush(&self) {
        self.link().flush();
    }
}
