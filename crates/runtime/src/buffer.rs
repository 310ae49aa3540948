//! [`Buffer`] and [`Slice`]: buffers that know what they hold, and ranges of them.
//!
//! 1. A [`Buffer<T>`] owns a buffer of the device's pool, which goes back there when the last of its clones, its
//!    slices, and what is bound to them has gone: recordings keep what they are bound to.
//! 2. A [`Slice<T>`] is a range of one. Bindings take either: [`Kernel::bind_slices`](crate::Kernel::bind_slices).
//! 3. Lengths are in items; nothing is longer than what it was made from, so no copy reaches outside.

use crate::pool::Pooled;
use crate::{Gpu, Readback};
use bytemuck::Pod;
use dapple_base::{Error, Result};
use std::marker::PhantomData;
use std::ops::{Bound as End, Deref, RangeBounds};
use std::sync::Arc;

/// `len` values on the device. Clones are the same buffer.
#[derive(Debug)]
pub struct Buffer<T> {
    pooled: Arc<Pooled>,
    len: usize,
    values: PhantomData<T>,
}

/// Some neighbouring values of a buffer, which it keeps.
#[derive(Debug)]
pub struct Slice<T> {
    bytes: ByteSlice,
    values: PhantomData<T>,
}

/// A range of a buffer, in bytes; of the pool's, which it keeps, or of one of the caller's.
#[derive(Debug, Clone)]
pub struct ByteSlice {
    pub(crate) buffer: Owner,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Whose buffer it is.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    /// The pool's, which does not get it back before.
    Pool(Arc<Pooled>),
    /// The caller's.
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

/// What a storage buffer is used for.
fn usage() -> wgpu::BufferUsages {
    let copied = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    wgpu::BufferUsages::STORAGE | copied
}

impl Gpu {
    /// `len` zeros of the device's pool.
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

    /// `data` on the device, in a buffer of its pool.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn buffer_of<T: Pod>(&self, label: &str, data: &[T]) -> Result<Buffer<T>> {
        let pooled = self.pool().take(label, size_of_val(data) as u64, usage())?;
        let buffer = Buffer::over(pooled, data.len());
        self.write(&buffer.pooled, 0, data);
        Ok(buffer)
    }

    /// Copies a slice to the host, after all that was submitted; waits for that copy alone. Not to wait, begin
    /// with [`Self::download`].
    ///
    /// # Errors
    /// A lost device, no memory for the copy.
    pub fn read_slice<T: Pod>(&self, slice: &Slice<T>) -> Result<Vec<T>> {
        let part = &slice.bytes;
        self.read_at(&part.buffer, part.offset, slice.len())
    }

    /// Submits the copy of a slice to the host. The result can be asked for, waited for, or awaited.
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

    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer itself, for what takes wgpu's. It may be longer than its values.
    pub fn raw(&self) -> &wgpu::Buffer {
        &self.pooled
    }

    /// All of it.
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

    /// A range of it.
    ///
    /// # Errors
    /// The range ends before it begins, or beyond the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Slice<T>> {
        self.all().slice(range)
    }
}

impl<T: Pod> Slice<T> {
    /// How many values it has.
    pub fn len(&self) -> usize {
        self.bytes.bytes as usize / size_of::<T>().max(1)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A range of it.
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

    /// Its bytes: what bindings and commands take.
    pub fn bytes(&self) -> &ByteSlice {
        &self.bytes
    }
}

impl ByteSlice {
    /// Bytes from the beginning of its buffer.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A range of it, in bytes.
    ///
    /// # Errors
    /// It ends beyond it.
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

    /// What a bind group takes. A binding is never empty: of an empty slice the buffer's first bytes are
    /// bound, which no count lets a kernel read.
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

/// All of a buffer of exact size.
impl From<&Arc<Pooled>> for ByteSlice {
    fn from(pooled: &Arc<Pooled>) -> Self {
        Self {
            buffer: Owner::Pool(Arc::clone(pooled)),
            offset: 0,
            bytes: pooled.bytes(),
        }
    }
}

/// All of a buffer that is not the pool's.
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
