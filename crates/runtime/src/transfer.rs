//! Large transfers in pieces: the device copies one piece while the host fills or empties the next.
//!
//! 1. A driver pins the pages of a staging buffer when the buffer is made, which takes longer than the transfer. A few
//!    buffers of the pool, used again and again, serve transfers of any length.
//! 2. Threads of the rayon pool fill or empty a piece together.
//! 3. The copies of a transfer are separate submissions. A buffer that other threads write in the meantime is read
//!    partly before, partly after: the caller excludes that.

use crate::host_memory::{
    COPIED_AT_ONCE, LARGE, MappedPart, PIECE, copy_to_host, zeroed_host_memory,
};
use crate::{Gpu, Pooled, Readback};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum of pieces in flight.
const AHEAD: usize = 4;

impl Gpu {
    /// Copies `data` into a buffer, `offset` bytes in; takes effect before later submissions.
    pub fn write<T: bytemuck::Pod>(&self, buffer: &wgpu::Buffer, offset: u64, data: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let is_large = bytes.len() as u64 >= LARGE && bytes.len().is_multiple_of(4);
        // Without memory for staging pieces, wgpu reports the failure of its own staging buffer.
        if is_large && self.write_large(buffer, offset, bytes).is_ok() {
            return;
        }
        if !bytes.is_empty() {
            self.link().tally.wrote(bytes.len() as u64);
            self.link().queue().write_buffer(buffer, offset, bytes);
        }
    }

    /// Writes `bytes` bytes into `buffer`, `offset` bytes in, both multiples of 4. `fill` receives the offset of a
    /// piece within the transfer and memory for all bytes of the piece. The write takes effect before later
    /// submissions.
    ///
    /// # Errors
    /// No memory for the pieces, a lost device.
    pub fn write_in_pieces(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: u64,
        fill: impl Fn(usize, wgpu::WriteOnly<'_, [u8]>),
    ) -> Result<()> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let mut in_flight: VecDeque<(Pooled, wgpu::SubmissionIndex)> = VecDeque::new();
        let mut done = 0;
        self.link().tally.wrote(bytes);
        while done < bytes {
            let now = PIECE.min(bytes - done);
            let waiting = match in_flight.len() < AHEAD {
                true => None,
                false => in_flight.pop_front(),
            };
            let staging = match waiting {
                Some((staging, submission)) => {
                    self.link().wait_for(submission)?;
                    staging
                }
                None => self.pool().take("an upload", PIECE.min(bytes), usage)?,
            };
            self.map_to_write(&staging, now)?;
            let mut view = staging
                .get_mapped_range_mut(..now)
                .map_err(|e| self.link().lost_error(&e.to_string()))?;
            fill(done as usize, view.slice(..));
            drop(view);
            staging.unmap();
            let mut encoder = self.encoder();
            encoder.copy_buffer_to_buffer(&staging, 0, buffer, offset + done, Some(now));
            let submission = self.submit(encoder);
            in_flight.push_back((staging, submission));
            done += now;
        }
        Ok(())
    }

    /// Maps the first bytes of a staging buffer that the device is done with.
    fn map_to_write(&self, staging: &Pooled, bytes: u64) -> Result<()> {
        let is_mapped = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&is_mapped);
        staging.map_async(wgpu::MapMode::Write, ..bytes, move |result| {
            mark.store(result.is_ok(), Ordering::Release);
        });
        self.link().poll();
        if !is_mapped.load(Ordering::Acquire) {
            self.link().wait()?;
        }
        match is_mapped.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Error::internal("memory for an upload was not mapped")),
        }
    }

    /// Copies `bytes` bytes of `buffer`, from `offset` on, to the host, after all work submitted before. Both are
    /// multiples of 4. `take` receives the offset of each piece within the transfer, and its bytes, in order.
    ///
    /// # Errors
    /// No memory for the pieces, a lost device.
    pub fn read_in_pieces(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: u64,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut in_flight: VecDeque<(u64, Readback<u8>)> = VecDeque::new();
        let mut begun = 0;
        loop {
            while begun < bytes && in_flight.len() < AHEAD {
                let now = PIECE.min(bytes - begun);
                let mut encoder = self.encoder();
                let mut readback =
                    self.begin_read(&mut encoder, buffer, offset + begun, now as usize)?;
                readback.submitted(self.submit(encoder));
                in_flight.push_back((begun, readback));
                begun += now;
            }
            let Some((at, mut readback)) = in_flight.pop_front() else {
                return Ok(());
            };
            readback.wait_with(|bytes| take(at as usize, bytes))?;
        }
    }

    /// [`Self::read_at`] of many values.
    pub(crate) fn read_large<T: Pod>(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        count: usize,
    ) -> Result<Vec<T>> {
        let mut values: Vec<T> = zeroed_host_memory(count);
        let all = bytemuck::cast_slice_mut::<T, u8>(&mut values);
        let bytes = all.len() as u64;
        self.read_in_pieces(buffer, offset, bytes, |at, from| {
            copy_to_host(from, &mut all[at..at + from.len()]);
        })?;
        Ok(values)
    }

    /// [`Self::write`] of many bytes.
    pub(crate) fn write_large(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        self.write_in_pieces(buffer, offset, bytes.len() as u64, |at, piece| {
            let from = &bytes[at..at + piece.len()];
            MappedPart::split(piece, COPIED_AT_ONCE)
                .into_par_iter()
                .zip(from.par_chunks(COPIED_AT_ONCE))
                .for_each(|(mut to, from)| to.write(0, from));
        })
    }
}
