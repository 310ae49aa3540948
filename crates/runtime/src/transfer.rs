//! Large transfers in pieces: the device copies one piece while the host fills or empties the next.
//!
//! 1. A driver pins the pages of a staging buffer when the buffer is made, which takes longer than the transfer. A few
//!    buffers of the pool, used again and again, serve transfers of any length.
//! 2. Threads of the rayon pool fill or empty a piece together.
//! 3. The copies of a transfer are separate submissions. A buffer that other threads write in the meantime is read
//!    partly before, partly after: the caller excludes that.

use crate::{Gpu, Pooled, Readback};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes per piece.
const PIECE: u64 = 8 << 20;
/// Maximum of pieces in flight.
const AHEAD: usize = 4;
/// Minimum bytes of a transfer that is cut into pieces.
pub(crate) const LARGE: u64 = 2 * PIECE;
/// Bytes that one thread copies at a time.
pub(crate) const COPIED_AT_ONCE: usize = 1 << 20;

/// Returns zeros. If the system provides large pages on request, a large vector uses them: the first write to each
/// small page costs more than the copy of the page.
pub fn zeroed_host_memory<T: Pod>(count: usize) -> Vec<T> {
    // Zeroed memory is not touched before the first write.
    let values: Vec<T> = bytemuck::zeroed_vec(count);
    #[cfg(target_os = "linux")]
    advise_large_pages(values.as_ptr().addr(), size_of_val(values.as_slice()));
    values
}

#[cfg(target_os = "linux")]
fn advise_large_pages(address: usize, bytes: usize) {
    const PAGE: usize = 4096;
    const LARGE_PAGE: usize = 2 << 20;
    if bytes < 4 * LARGE_PAGE {
        return;
    }
    let first = address.next_multiple_of(PAGE);
    let length = (address + bytes - first) / PAGE * PAGE;
    // SAFETY: the range is inside of the allocation of `values`, and the advice changes none of its values. A refusal
    // costs only time.
    unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(first),
            length,
            libc::MADV_HUGEPAGE,
        );
    }
}

impl Gpu {
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

/// A part of mapped memory that one thread fills.
#[derive(Debug)]
pub struct MappedPart<'a>(wgpu::WriteOnly<'a, [u8]>);

// SAFETY: the part borrows only its bytes, and bytes can be sent. wgpu declares so for types of known size only.
unsafe impl Send for MappedPart<'_> {}

impl<'a> MappedPart<'a> {
    /// Splits memory into parts of `bytes` bytes, for several threads; the last part is shorter.
    pub fn split(memory: wgpu::WriteOnly<'a, [u8]>, bytes: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rest = memory;
        while rest.len() > bytes {
            let (part, after) = rest.split_at(bytes);
            parts.push(Self(part));
            rest = after;
        }
        parts.push(Self(rest));
        parts
    }

    /// Writes values, `at` bytes into the part. From the first byte to the last is fastest: the memory may be behind a
    /// bus.
    pub fn write<T: bytemuck::NoUninit>(&mut self, at: usize, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.0.slice(at..at + bytes.len()).copy_from_slice(bytes);
    }
}

/// Copies on all threads.
pub(crate) fn copy_to_host(from: &[u8], to: &mut [u8]) {
    to.par_chunks_mut(COPIED_AT_ONCE)
        .zip(from.par_chunks(COPIED_AT_ONCE))
        .for_each(|(to, from)| to.copy_from_slice(from));
}
