//! What a recording does beside dispatches: clears, copies, uploads and downloads.
//!
//! They run in order with the dispatches around them, and a replay makes nothing anew but where downloads
//! arrive.

use crate::buffer::ByteSlice;
use crate::kernel::Bound;
use crate::recording::Groups;
use crate::{Gpu, Readback, Slice};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use std::marker::PhantomData;

/// One command.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// A kernel runs.
    Dispatch(Dispatch),
    /// Bytes become 0.
    Clear(ByteSlice),
    /// Bytes are copied; as many as `to` has.
    Copy { from: ByteSlice, to: ByteSlice },
    /// Bytes are copied to the host: number of the download, and what.
    Download(usize, ByteSlice),
}

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// Kernel and buffers.
    pub bound: Bound,
    /// How many workgroups.
    pub groups: Groups,
}

impl Command {
    pub(crate) fn dispatch(&self) -> Option<&Dispatch> {
        match self {
            Self::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        }
    }

    /// Encodes what is no dispatch; a download is left to who replays.
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

/// Whole words, as the device copies them.
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

/// What may be copied onto what.
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

/// Bytes that stay on the device to be copied from.
pub(crate) fn staged<T: Pod>(gpu: &Gpu, data: &[T]) -> Result<ByteSlice> {
    let staged: Slice<T> = gpu.buffer_of("an upload", data)?.all();
    Ok(staged.into())
}

/// A download that a recording has: what each replay's [`Replay::take`] asks for.
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

/// A recording that was submitted, and what comes back of it.
#[derive(Debug)]
pub struct Replay {
    pub(crate) submission: wgpu::SubmissionIndex,
    pub(crate) arriving: Vec<Option<Readback<u8>>>,
}

impl Replay {
    /// What the device was given: for [`Gpu::wait_for`].
    pub fn submission(&self) -> wgpu::SubmissionIndex {
        self.submission.clone()
    }

    /// What a download brings of this replay: to be asked for, waited for, or awaited.
    ///
    /// # Errors
    /// A download of another recording, or one taken before.
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
