//! Reports return through a ring buffer, so that steps and host do not wait for each other.
//!
//! 1. Each enqueued command has a sequence number; its report goes to entry `number % RING`.
//! 2. After at most [`CHUNK`] commands or [`CHUNK_EVERY`], the entries written since are copied out: a *chunk*. The GPU
//!    copies it when it reaches that point of the queue, and the host does not wait.
//! 3. The host waits for the oldest chunk only if more than [`CHUNKS_IN_FLIGHT`] chunks are in flight. The GPU still
//!    has the others to do, so it never idles. If few photos fit on the device, chunks are smaller and fewer are in
//!    flight: see [`RingBuffer::hold_back`].

use crate::layout::{RING, Report};
use crate::photos::AHEAD;
use dapple_engine::constants::FINITE_EVERY;
use dapple_runtime::{Gpu, Readback, wgpu};
use dapple_scene::{Error, Result};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most reports of a chunk. It is so small that a run with non-finite numbers ends within [`MOST_LOST_STEPS`] of the
/// step that caused them. (With 32 it was 210; a submission in ten steps is a thousandth of their time.)
const CHUNK: u64 = 10;

/// Most steps of a run after numbers become non-finite: the steps until the engine checks, and the steps in flight to
/// the GPU before its report arrives.
const MOST_LOST_STEPS: u64 = 100;

/// A chunk is sent after this time even if it is not full, so that progress is visible.
const CHUNK_EVERY: Duration = Duration::from_millis(40);

/// Chunks in flight before the host waits for the oldest. They and the chunk that gathers fit the ring buffer.
const CHUNKS_IN_FLIGHT: usize = 4;

const _: () = assert!((CHUNKS_IN_FLIGHT as u64 + 2) * CHUNK <= RING);
const _: () =
    assert!(FINITE_EVERY as u64 + (CHUNKS_IN_FLIGHT as u64 + 1) * CHUNK <= MOST_LOST_STEPS);

/// Chunks in flight if commands are held back: one to wait for, and one that the GPU executes at the same time. Each
/// chunk costs a submission, so few large chunks are better than more.
const HELD_BACK_IN_FLIGHT: usize = 2;

#[derive(Debug)]
struct Chunk {
    first: u64,
    reports: Readback<Report>,
    submission: wgpu::SubmissionIndex,
}

/// Reports in flight.
#[derive(Debug)]
pub struct RingBuffer {
    chunks: VecDeque<Chunk>,
    /// Sequence number of the next command.
    next: u64,
    /// Commands before this one are in a chunk.
    sent: u64,
    last_sent: Instant,
    /// Most commands of a chunk.
    chunk: u64,
    /// Most chunks in flight.
    in_flight: usize,
}

impl RingBuffer {
    /// Creates a ring buffer with nothing enqueued.
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

    /// Limits the commands in flight to the number of photos on the device at a time, less the photos that are uploaded
    /// ahead of their steps. So the next photo finds one to replace while the GPU still has work.
    pub fn hold_back(&mut self, photos: u64) {
        let photos = photos.saturating_sub(AHEAD as u64);
        if photos < (CHUNKS_IN_FLIGHT as u64 + 1) * CHUNK {
            self.in_flight = HELD_BACK_IN_FLIGHT;
            // Divided by the chunks in flight and the chunk that gathers.
            self.chunk = (photos / (HELD_BACK_IN_FLIGHT as u64 + 1)).clamp(1, CHUNK);
        }
    }

    /// Returns the sequence number of the command that is enqueued next.
    pub fn upcoming(&self) -> u64 {
        self.next
    }

    /// Counts the command with that number as enqueued.
    pub fn enqueued(&mut self) {
        self.next += 1;
    }

    /// Returns the entry of a command in the ring buffer.
    pub fn entry(sequence: u64) -> u32 {
        (sequence % RING) as u32
    }

    /// Sends the gathered commands as a chunk, if they are enough or old enough.
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

    /// Returns true if more chunks are in flight than the limit.
    pub fn is_full(&self) -> bool {
        self.chunks.len() > self.in_flight
    }

    /// Sends all gathered commands.
    ///
    /// # Errors
    /// See [`Self::advance`].
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

    /// Returns the oldest chunk's reports with their sequence numbers, if they have arrived; with `wait`, when they
    /// have. `None` if there is no chunk or it is still in flight.
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

    /// Discards everything in flight.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.sent = self.next;
    }
}
