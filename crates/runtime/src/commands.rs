//! Commands of a command list in addition to dispatches: clears, copies, uploads and downloads.
//!
//! Commands run in order with the dispatches around them. A replay creates no buffers, except those that downloads
//! arrive in.

use crate::buffer::ByteSlice;
use crate::kernel::Bound;
use crate::{Gpu, Readback, Slice};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use std::marker::PhantomData;

/// Number of workgroups to run.
#[derive(Debug, Clone)]
pub enum Groups {
    /// Count known to the host.
    Direct([u32; 3]),
    /// Count written by the GPU: three `u32` at an offset in bytes.
    Indirect(wgpu::Buffer, u64),
}

impl Groups {
    /// Creates at least `count` workgroups, in two dimensions if one dimension does not hold them. Kernels compute `x +
    /// y * num_workgroups.x` and return beyond their own count.
    pub fn flat(count: u32) -> Self {
        let x = count.clamp(1, 32_768);
        Self::Direct([x, count.div_ceil(x), 1])
    }
}

/// One command.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// Run of a kernel.
    Dispatch(Dispatch),
    /// Bytes that become 0.
    Clear(ByteSlice),
    /// Copy of as many bytes as `to` has.
    Copy { from: ByteSlice, to: ByteSlice },
    /// Copy to the host: number of the download, and its source.
    Download(usize, ByteSlice),
}

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// Kernel and buffers.
    pub bound: Bound,
    /// Number of workgroups.
    pub groups: Groups,
}

impl Command {
    pub(crate) fn dispatch(&self) -> Option<&Dispatch> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        }
    }

    /// Encodes a command other than a dispatch; the replaying function encodes downloads.
    pub(crate) fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        match self {
            Self::Dispatch(_) | Self::Download(..) => {}
            Self::Clear(part) => {
                encoder.clear_buffer(&part.buffer, part.offset, Some(part.bytes));
            }
            Self::Copy { from, to } => encoder.copy_buffer_to_buffer(
                &from.buffer,
                from.offset,
                &to.buffer,
                to.offset,
                Some(to.bytes),
            ),
        }
    }
}

/// Checks that a range is whole words, as the device copies them.
pub(crate) fn whole_words(part: &ByteSlice) -> Result<()> {
    if part.offset.is_multiple_of(4) && part.bytes.is_multiple_of(4) {
        return Ok(());
    }
    let what = format!(
        "{} bytes at {} are not whole words",
        part.bytes, part.offset
    );
    Err(Error::internal(what))
}

/// Checks that a range may be copied onto another.
pub(crate) fn check_copy(from: &ByteSlice, to: &ByteSlice) -> Result<()> {
    whole_words(from)?;
    whole_words(to)?;
    if from.bytes != to.bytes {
        let what = format!("{} bytes cannot be copied onto {}", from.bytes, to.bytes);
        return Err(Error::internal(what));
    }
    if *from.buffer == *to.buffer {
        return Err(Error::internal("a buffer cannot be copied onto itself"));
    }
    Ok(())
}

/// Uploads bytes that stay on the device as the source of a copy.
pub(crate) fn staged<T: Pod>(gpu: &Gpu, data: &[T]) -> Result<ByteSlice> {
    let staged: Slice<T> = gpu.buffer_of("an upload", data)?.all();
    Ok(staged.into())
}

/// Download of a command list, the key for [`Replay::take`] in each replay.
#[derive(Debug)]
pub struct Download<T> {
    pub(crate) number: usize,
    pub(crate) values: PhantomData<T>,
}

impl<T> Clone for Download<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Download<T> {}

/// A submitted command list and its downloads.
#[derive(Debug)]
pub struct Replay {
    pub(crate) submission: wgpu::SubmissionIndex,
    pub(crate) arriving: Vec<Option<Readback<u8>>>,
}

impl Replay {
    /// Returns the index of the submission, for [`Gpu::wait_for`].
    pub fn submission(&self) -> wgpu::SubmissionIndex {
        self.submission.clone()
    }

    /// Returns the values of a download in this replay, which can be polled, waited for, or awaited.
    ///
    /// # Errors
    /// A download of another command list, or one taken before.
    pub fn take<T: Pod>(&mut self, download: Download<T>) -> Result<Readback<T>> {
        let arriving = self
            .arriving
            .get_mut(download.number)
            .and_then(Option::take);
        let arriving =
            arriving.ok_or_else(|| Error::internal("this replay has no such download"))?;
        Ok(arriving.typed())
    }
}
