//! [`Upload`]: a copy of bytes from the host into a buffer in flight, without an intermediate copy.
//!
//! 1. [`Gpu::begin_upload`] takes memory that the host writes and the device reads.
//! 2. Any thread writes the bytes there, from the first to the last. Such memory may be the device's own, behind a bus
//!    that transfers whole lines in order, and is never read by the host.
//! 3. [`Upload::finish`] lists the copy into the buffer: it comes before later submissions and after earlier ones. The
//!    memory is released when the device has copied.

use crate::Gpu;
use crate::link::Link;
use dapple_base::{Error, Result};
use std::num::NonZeroU64;

/// Memory of the device that is being filled for a buffer. Dropping it finishes the upload, with the bytes written so
/// far.
#[derive(Debug)]
pub struct Upload {
    staging: Option<wgpu::QueueWriteBufferView>,
    filled: usize,
    link: Link,
}

impl Gpu {
    /// Begins to write `bytes` bytes into `buffer`, `offset` bytes in. Both are multiples of 4.
    ///
    /// # Errors
    /// Nothing to write, or more than the buffer holds; no memory, a lost device.
    pub fn begin_upload(&self, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Upload> {
        let size = NonZeroU64::new(bytes)
            .ok_or_else(|| Error::internal("an upload of nothing was begun"))?;
        let Some(staging) = self.queue().write_buffer_with(buffer, offset, size) else {
            self.check()?;
            return Err(Error::internal(format!(
                "{bytes} bytes could not be written to a buffer of {}",
                buffer.size()
            )));
        };
        self.link().tally.wrote(bytes);
        Ok(Upload {
            staging: Some(staging),
            filled: 0,
            link: self.link().clone(),
        })
    }
}

impl Upload {
    /// Appends `values`. Bytes beyond the size of the upload are dropped.
    pub fn put<T: bytemuck::NoUninit>(&mut self, values: &[T]) {
        let Some(staging) = &mut self.staging else {
            return;
        };
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let room = staging.len() - self.filled;
        let bytes = &bytes[..bytes.len().min(room)];
        let end = self.filled + bytes.len();
        staging.slice(self.filled..end).copy_from_slice(bytes);
        self.filled = end;
    }

    /// Lists the copy into the buffer.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Earlier commands read the old content.
        self.link.flush();
        self.staging = None;
    }
}
