//! Reports come back through a ring, so that no step waits for the host nor the host for a step.
//!
//! 1. Each enqueued command has a sequence number; its report goes to entry `number % RING`.
//! 2. Now and then the entries written since are copied out: a *chunk*. It arrives whenever the GPU
//!    gets there; nobody waits.
//! 3. Only if more than [`CHUNKS_IN_FLIGHT`] chunks are on their way does the host wait for the
//!    oldest: the GPU still has the others to do, so it never idles for it. Chunks are smaller where
//!    few photos fit on the device, and fewer are on their way: see [`Ring::hold_back`].

use crate::layout::Report;
use crate::photos::AHEAD;
use dapple_engine::constants::FINITE_EVERY;
use dapple_runtime::{Gpu, Readback, wgpu};
use dapple_scene::{Error, Result};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Entries of the ring of reports.
pub const RING: u64 = 256;

/// A chunk holds at most this many reports: so few that a run whose numbers are lost ends within
/// [`MOST_LOST_STEPS`] of the step that lost them. (With 32 it was 210; a submission in ten steps is a
/// thousandth of what they take.)
const CHUNK: u64 = 10;

/// Steps of a run whose numbers are lost, at most: those until an engine looks, and those that are on their way
/// to the GPU before its report has come.
const MOST_LOST_STEPS: u64 = 100;

/// A chunk is sent off after this time even if it is not full, so that progress is seen.
const CHUNK_EVERY: Duration = Duration::from_millis(40);

/// Chunks on their way before the host waits for the oldest. Together with the one that gathers
/// they fit the ring.
const CHUNKS_IN_FLIGHT: usize = 4;

const _: () = assert!((CHUNKS_IN_FLIGHT as u64 + 2) * CHUNK <= RING);
const _: () =
    assert!(FINITE_EVERY as u64 + (CHUNKS_IN_FLIGHT as u64 + 1) * CHUNK <= MOST_LOST_STEPS);

/// As many where commands are held back: one to wait for, and one that the GPU does meanwhile. A chunk
/// costs a submission of its own, so few large ones are better than more.
const HELD_BACK_IN_FLIGHT: usize = 2;

#[derive(Debug)]
struct Chunk {
    first: u64,
    reports: Readback<Report>,
    submission: wgpu::SubmissionIndex,
}

/// Reports on their way.
#[derive(Debug)]
pub struct Ring {
    chunks: VecDeque<Chunk>,
    /// Sequence number of the next command.
    next: u64,
    /// Commands before this one are in a chunk.
    sent: u64,
    last_sent: Instant,
    /// Commands that are sent off together at most.
    chunk: u64,
    /// Chunks on their way at most.
    in_flight: usize,
}

impl Ring {
    /// Nothing enqueued.
    pub fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            next: 0,
            sent: 0,
            last_sent: Instant::now(),
            chunk: CHUNK,
            in_flight: CHUNKS_IN_FLIGHT,
        }
    }

    /// Lets no more commands be on their way than there are photos on the device at a time, less those that
    /// come ahead of their steps, so that the next photo finds one that can give way while the GPU still
    /// has work.
    pub fn hold_back(&mut self, photos: u64) {
        let photos = photos.saturating_sub(AHEAD as u64);
        if photos < (CHUNKS_IN_FLIGHT as u64 + 1) * CHUNK {
            self.in_flight = HELD_BACK_IN_FLIGHT;
            // Those on their way, and the one that gathers.
            self.chunk = (photos / (HELD_BACK_IN_FLIGHT as u64 + 1)).clamp(1, CHUNK);
        }
    }

    /// Sequence number of the command that is enqueued next.
    pub fn upcoming(&self) -> u64 {
        self.next
    }

    /// That command was enqueued.
    pub fn enqueued(&mut self) {
        self.next += 1;
    }

    /// The ring's entry of a command.
    pub fn entry(sequence: u64) -> u32 {
        (sequence % RING) as u32
    }

    /// Sends off what has gathered, if it is enough or old enough.
    ///
    /// # Errors
    /// A lost device, no memory.
    pub fn advance(&mut self, gpu: &Gpu, reports: &wgpu::Buffer) -> Result<()> {
        let gathered = self.next - self.sent;
        let old = gathered > 0
            && self.chunks.len() < self.in_flight
            && self.last_sent.elapsed() > CHUNK_EVERY;
        if gathered >= self.chunk || old {
            self.send(gpu, reports)?;
        }
        Ok(())
    }

    /// Whether more is on its way than should be.
    pub fn is_full(&self) -> bool {
        self.chunks.len() > self.in_flight
    }

    /// Sends off everything that has gathered.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn send(&mut self, gpu: &Gpu, reports: &wgpu::Buffer) -> Result<()> {
        while self.sent < self.next {
            // A copy does not wrap.
            let entry = self.sent % RING;
            let count = (self.next - self.sent).min(self.chunk).min(RING - entry);
            let mut encoder = gpu.encoder();
            let offset = entry * size_of::<Report>() as u64;
            let arriving = gpu.begin_read(&mut encoder, reports, offset, count as usize)?;
            self.chunks.push_back(Chunk {
                first: self.sent,
                reports: arriving,
                submission: gpu.submit(encoder),
            });
            self.sent += count;
        }
        self.last_sent = Instant::now();
        Ok(())
    }

    /// The oldest chunk's reports with their sequence numbers, if they have arrived; with `wait`,
    /// when they have. `None` if there is no chunk or it is still on its way.
    ///
    /// # Errors
    /// A lost device.
    pub fn receive(&mut self, gpu: &Gpu, wait: bool) -> Result<Option<Vec<(u64, Report)>>> {
        let Some(chunk) = self.chunks.front_mut() else {
            return Ok(None);
        };
        let mut arrived = chunk.reports.take()?;
        if arrived.is_none() && wait {
            gpu.wait_for(chunk.submission.clone())?;
            arrived = chunk.reports.take()?;
            if arrived.is_none() {
                return Err(Error::internal("the GPU has finished and did not report"));
            }
        }
        let Some(reports) = arrived else {
            return Ok(None);
        };
        let first = chunk.first;
        self.chunks.pop_front();
        Ok(Some((first..).zip(reports).collect()))
    }

    /// Forgets everything on its way.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.sent = self.next;
    }
}
