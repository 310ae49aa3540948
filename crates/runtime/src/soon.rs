//! [`Recording::submit_soon`]: small recordings that share submissions, each of which costs the host several
//! microseconds.
//!
//! 1. A device keeps one encoder open, with a pass in it, into which recordings are encoded in the order in which
//!    they are run.
//! 2. The first is submitted at once, so that nothing waits that comes alone; then the next one, then two, four and so
//!    on, at most [`MOST`] together. What comes after a pause begins again with one.
//! 3. Whatever else reaches the queue (writes, reads, waits, polls, submissions, a program that asks for it) has the
//!    open encoder submitted first: nobody sees another order than that of the calls.
//!
//! On a device that another part of the program has opened everything is submitted at once: what that part submits is
//! not seen here.

use crate::link::Link;
use crate::{Gpu, Recording};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most recordings of one submission.
const MOST: usize = 32;
/// What comes later than this after the one before is submitted at once.
const PAUSE: Duration = Duration::from_millis(1);

/// What is encoded and not submitted.
#[derive(Debug, Default)]
pub(crate) struct Soon(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    encoder: Option<wgpu::CommandEncoder>,
    /// Of the encoder: ends before it.
    pass: Option<wgpu::ComputePass<'static>>,
    /// Recordings in the encoder.
    held: usize,
    /// Recordings of the submission before.
    before: usize,
    last: Option<Instant>,
}

impl Soon {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// The queue, with everything submitted that was to be soon.
    pub(crate) fn queue(&self) -> &wgpu::Queue {
        self.flush();
        &self.queue
    }

    /// Submits what was to be submitted soon.
    pub(crate) fn flush(&self) {
        // The lock is held meanwhile: another thread must not overtake.
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

    fn submit_soon(&self, recording: &Recording) {
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

impl Recording {
    /// Submits all of it, downloads apart, together with what is run before and after it, where that saves time: for
    /// recordings that take the device less than a submission takes the host. Whatever else is asked of the device
    /// through [`Gpu`] comes after it. The last of many may stay until then: [`Gpu::flush`] submits them.
    pub fn submit_soon(&self, gpu: &Gpu) {
        // Parameters and immediates are written ahead of what is submitted later.
        if gpu.shares_submissions() && !self.takes_parameters() {
            gpu.link().submit_soon(self);
        } else {
            self.submit(gpu, &[]);
        }
    }
}

impl Gpu {
    /// Submits what [`Recording::submit_soon`] has kept. Reads, waits and all other submissions do so themselves.
    pub fn flush(&self) {
        self.link().flush();
    }
}
