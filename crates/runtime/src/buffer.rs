//! [`Buffer`] and [`Slice`]: typed buffers and ranges of them.
//!
//! 1. A [`Buffer<T>`] owns a buffer of the device's pool. The buffer returns to the pool when its last clone, its
//!    slices and everything bound to them are dropped: command lists keep the buffers that they are bound to.
//! 2. A [`Slice<T>`] is a range of a buffer. Bindings take either: [`Kernel::bind_slices`](crate::Kernel::bind_slices).
//! 3. Lengths are in items. No range is longer than its source, so no copy reaches outside.

use crate::pool::Pooled;
use crate::{Gpu, Readback};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use std::marker::PhantomData;
use std::ops::{Bound as End, Deref, RangeBounds};
use std::sync::Arc;

/// `len` values on the device. Clones share the buffer.
#[derive(Debug)]
pub struct Buffer<T> {
    pooled: Arc<Pooled>,
    len: usize,
    values: PhantomData<T>,
}

/// Range of consecutive values of a buffer, which the slice keeps alive.
#[derive(Debug)]
pub struct Slice<T> {
    bytes: ByteSlice,
    values: PhantomData<T>,
}

/// Range of a buffer, in bytes. The buffer is one of the pool, which the range keeps alive, or one of the caller.
#[derive(Debug, Clone)]
pub struct ByteSlice {
    pub(crate) buffer: Owner,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Owner of the buffer.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    /// A buffer of the pool, which does not return before this handle is dropped.
    Pool(Arc<Pooled>),
    /// A buffer of the caller.
    Other(wgpu::Buffer),
}

impl Deref for Owner {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        match self {
            Self::Pool(pooled) => pooled,
            Self::Other(buffer) => buffer,
        }
    }
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self {
            pooled: Arc::clone(&self.pooled),
            len: self.len,
            values: PhantomData,
        }
    }
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            values: PhantomData,
        }
    }
}

/// Returns the uses of a storage buffer.
fn usage() -> wgpu::BufferUsages {
    let copied = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    wgpu::BufferUsages::STORAGE | copied
}

impl Gpu {
    /// Returns `len` zeros in a buffer of the device's pool.
    ///
    /// # Errors
    /// Larger than the device's limit, or no memory left.
    pub fn zeros<T: Pod>(&self, label: &str, len: usize) -> Result<Buffer<T>> {
        let mut encoder = self.encoder();
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let pooled = self
            .pool()
            .take_zeroed(label, bytes, usage(), &mut encoder)?;
        self.submit(encoder);
        Ok(Buffer::over(pooled, len))
    }

    /// Copies `data` to the device, into a buffer of its pool.
    ///
    /// # Errors
    /// See [`Self::zeros`] for the errors.
    pub fn buffer_of<T: Pod>(&self, label: &str, data: &[T]) -> Result<Buffer<T>> {
        let pooled = self.pool().take(label, size_of_val(data) as u64, usage())?;
        let buffer = Buffer::over(pooled, data.len());
        self.write(&buffer.pooled, 0, data);
        Ok(buffer)
    }

    /// Copies a slice to the host, after all work submitted before, and waits for this copy only. [`Self::download`]
    /// starts the copy without waiting.
    ///
    /// # Errors
    /// A lost device, no memory for the copy.
    pub fn read_slice<T: Pod>(&self, slice: &Slice<T>) -> Result<Vec<T>> {
        let part = &slice.bytes;
        self.read_at(&part.buffer, part.offset, slice.len())
    }

    /// Submits the copy of a slice to the host. The result can be polled, waited for, or awaited.
    ///
    /// # Errors
    /// A lost device, no memory for the copy.
    pub fn download<T: Pod>(&self, slice: &Slice<T>) -> Result<Readback<T>> {
        let mut encoder = self.encoder();
        let part = &slice.bytes;
        let mut readback = self.begin_read(&mut encoder, &part.buffer, part.offset, slice.len())?;
        readback.submitted(self.submit(encoder));
        Ok(readback)
    }
}

impl<T: Pod> Buffer<T> {
    fn over(pooled: Pooled, len: usize) -> Self {
        Self {
            pooled: Arc::new(pooled),
            len,
            values: PhantomData,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the buffer holds no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the wgpu buffer, for functions that take one. It may be longer than its values.
    pub fn raw(&self) -> &wgpu::Buffer {
        &self.pooled
    }

    /// Returns a slice of the whole buffer.
    pub fn all(&self) -> Slice<T> {
        Slice {
            bytes: ByteSlice {
                buffer: Owner::Pool(Arc::clone(&self.pooled)),
                offset: 0,
                bytes: (self.len * size_of::<T>()) as u64,
            },
            values: PhantomData,
        }
    }

    /// Returns a range of the buffer.
    ///
    /// # Errors
    /// The range ends before it begins, or beyond the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Slice<T>> {
        self.all().slice(range)
    }
}

impl<T: Pod> Slice<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.bytes.bytes as usize / size_of::<T>().max(1)
    }

    /// Returns true if the slice has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a range of the slice.
    ///
    /// # Errors
    /// The range ends before it begins, or beyond the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let first = match range.start_bound() {
            End::Included(&first) => first,
            End::Excluded(&before) => before.saturating_add(1),
            End::Unbounded => 0,
        };
        let end = match range.end_bound() {
            End::Included(&last) => last.saturating_add(1),
            End::Excluded(&end) => end,
            End::Unbounded => self.len(),
        };
        if first > end || end > self.len() {
            let what = format!("values {first} to {end} of {}", self.len());
            return Err(Error::internal(what));
        }
        let each = size_of::<T>() as u64;
        Ok(Self {
            bytes: ByteSlice {
                buffer: self.bytes.buffer.clone(),
                offset: self.bytes.offset + first as u64 * each,
                bytes: (end - first) as u64 * each,
            },
            values: PhantomData,
        })
    }

    /// Returns the byte range, which bindings and commands take.
    pub fn bytes(&self) -> &ByteSlice {
        &self.bytes
    }
}

impl ByteSlice {
    /// Returns the offset from the beginning of the buffer, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns a range of this range, in bytes.
    ///
    /// # Errors
    /// The new range ends beyond this one.
    pub fn part(&self, offset: u64, bytes: u64) -> Result<Self> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            let what = format!("{bytes} bytes at {offset} of {}", self.bytes);
            return Err(Error::internal(what));
        }
        Ok(Self {
            buffer: self.buffer.clone(),
            offset: self.offset + offset,
            bytes,
        })
    }

    /// Returns the resource of a bind group. A binding is never empty: for an empty slice the first bytes of the buffer
    /// are bound, which no count lets a kernel read.
    pub(crate) fn binding(&self) -> wgpu::BindingResource<'_> {
        let whole = self.bytes.next_multiple_of(4);
        let (offset, size) = match whole {
            0 => (0, 16),
            size => (self.offset, size),
        };
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.buffer,
            offset,
            size: wgpu::BufferSize::new(size),
        })
    }
}

/// Range of a whole buffer of exact size.
impl From<&Arc<Pooled>> for ByteSlice {
    fn from(pooled: &Arc<Pooled>) -> Self {
        Self {
            buffer: Owner::Pool(Arc::clone(pooled)),
            offset: 0,
            bytes: pooled.bytes(),
        }
    }
}

/// Range of a whole buffer that is not from the pool.
impl From<&wgpu::Buffer> for ByteSlice {
    fn from(buffer: &wgpu::Buffer) -> Self {
        Self {
            buffer: Owner::Other(buffer.clone()),
            offset: 0,
            bytes: buffer.size(),
        }
    }
}

impl<T> From<Slice<T>> for ByteSlice {
    fn from(slice: Slice<T>) -> Self {
        slice.bytes
    }
}

impl<T: Pod> From<&Buffer<T>> for ByteSlice {
    fn from(buffer: &Buffer<T>) -> Self {
        buffer.all().bytes
    }
}

impl<T> From<&Slice<T>> for ByteSlice {
    fn from(slice: &Slice<T>) -> Self {
        slice.bytes.clone()
    }
}
