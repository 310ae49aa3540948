//! [`Pool`]: reuses buffers instead of allocating new ones.
//!
//! 1. A request is rounded up to a size class: four steps between powers of two up to 64 MiB, whole multiples of 16 MiB
//!    above. A buffer is at most a quarter larger than the request. A class has one use (`BufferUsages`), so a buffer
//!    fits every request of its class.
//! 2. A [`Pooled`] handle returns its buffer when it is dropped. The queue may still use the buffer. A callback marks
//!    the buffer idle when everything submitted until then is done, and the pool hands out idle buffers only. The pool
//!    does not wait: without an idle buffer it creates a new one.
//! 3. When the device has no memory left, or the pool has reached its limit
//!    ([`GpuOptions::memory_limit`](crate::GpuOptions::memory_limit)), the pool drops all free buffers, waits for work in
//!    flight, and tries the allocation once more.
//!
//! 4. Buffers for whole tensors have their exact size ([`Pool::take_exact`]). Their size is not rounded up and they are
//!    not kept free, since few other requests would fit. They count like all others.
//!
//! 5. [`Pool::set_max_buffers_per_size`] bounds the free buffers of a class. Beyond the bound, the pool evicts the
//!    buffer that was returned first.
//!
//! wgpu zeroes new buffers; used ones keep their old content. [`Pool::take_zeroed`] clears either.

use crate::link::Link;
use dapple_base::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smallest class: drivers align buffers to this size anyway.
const LEAST: u64 = 256;
/// Limit up to which classes are four steps between powers of two.
const STEPPED: u64 = 64 << 20;
/// Step above [`STEPPED`]: a quarter of it, so that no more than a quarter is added there either.
const STEP: u64 = 16 << 20;

/// Content and history of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PoolStats {
    /// Buffers created.
    pub allocations: u64,
    /// Requests served with a used buffer.
    pub reuses: u64,
    /// Buffers handed out at present.
    pub live: u64,
    /// Maximum of buffers handed out at one time.
    pub peak_live: u64,
    /// Buffers that the pool released: free ones to release memory, those of exact size on their return, and used ones
    /// whose state was unknown.
    pub evicted: u64,
    /// Bytes of buffers handed out.
    pub live_bytes: u64,
    /// Maximum of bytes handed out and kept free at one time.
    pub peak_bytes: u64,
    /// Bytes of free buffers.
    pub pooled_bytes: u64,
    /// Free buffers.
    pub pooled: u64,
    /// Pairs of size class and use that have free buffers.
    pub size_classes: u64,
    /// Maximum of free buffers of a class; `None` without a limit.
    pub max_buffers_per_size: Option<usize>,
}

impl PoolStats {
    /// Returns the share of requests that a used buffer served, 0 to 1; 0 without a request.
    pub fn reuse_rate(&self) -> f64 {
        self.reuses as f64 / ((self.reuses + self.allocations) as f64).max(1.0)
    }

    /// Returns the bytes of all buffers, handed out or free.
    pub fn total_bytes(&self) -> u64 {
        self.live_bytes + self.pooled_bytes
    }

    fn handed_out(&mut self) {
        self.live += 1;
        self.peak_live = self.peak_live.max(self.live);
    }
}

/// A pool of one device's buffers. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    /// Most bytes of buffers.
    limit: u64,
    state: Mutex<State>,
    /// Number of allocations that fail as if there were no memory.
    #[cfg(test)]
    failing: std::sync::atomic::AtomicU32,
}

/// Use, as bits, and size in bytes.
type Key = (u32, u64);

#[derive(Debug, Default)]
struct State {
    free: BTreeMap<Key, Vec<Free>>,
    stats: PoolStats,
}

#[derive(Debug)]
struct Free {
    buffer: wgpu::Buffer,
    /// True if the queue is done with the buffer.
    idle: Arc<AtomicBool>,
}

/// A buffer that returns to its pool when dropped. Keep it for as long as a command list or a bind group names its
/// buffer: the pool only tracks work that is already submitted.
#[derive(Debug)]
pub struct Pooled {
    /// `None` only after the buffer has returned to the pool.
    buffer: Option<wgpu::Buffer>,
    bytes: u64,
    /// True if the buffer is released on its return.
    is_exact: bool,
    pool: Arc<Inner>,
}

impl Pool {
    /// Creates an empty pool, whose buffers take at most this many bytes.
    pub(crate) fn over(link: Link, limit: Option<u64>) -> Self {
        Self {
            inner: Arc::new(Inner {
                link,
                limit: limit.unwrap_or(u64::MAX),
                state: Mutex::default(),
                #[cfg(test)]
                failing: 0.into(),
            }),
        }
    }

    /// Returns a buffer of at least `bytes` bytes and exactly these uses, which the queue is done with. Its content is
    /// undefined. The buffer may be a quarter longer than requested: shaders must not take counts from `arrayLength`.
    /// `label` is for errors.
    ///
    /// # Errors
    /// More than the device's limit, or no memory left even after [`Self::trim`].
    pub fn take(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<Pooled> {
        let link = &self.inner.link;
        let least = link.buffer_size(label, bytes, usage)?;
        let size = size_class(least).min(link.most_bytes(usage));
        let buffer = match self.reuse(size, usage) {
            Some(buffer) => buffer,
            None => self.allocate(label, size, usage)?,
        };
        Ok(Pooled {
            buffer: Some(buffer),
            bytes: least,
            is_exact: false,
            pool: Arc::clone(&self.inner),
        })
    }

    /// Returns a zeroed buffer of exactly `bytes` bytes (see
    /// [`Gpu::size_of_buffer`](crate::Gpu::size_of_buffer)) and these uses. The buffer is new, and is released when its
    /// last handle is dropped: the driver frees it when the queue is done with it. If there is no memory, the pool
    /// first releases its free buffers.
    ///
    /// # Errors
    /// See [`Self::take`] for the errors.
    pub fn take_exact(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<Pooled> {
        let size = self.inner.link.buffer_size(label, bytes, usage)?;
        Ok(Pooled {
            buffer: Some(self.allocate(label, size, usage)?),
            bytes: size,
            is_exact: true,
            pool: Arc::clone(&self.inner),
        })
    }

    /// [`Self::take`] with bytes that are 0 for commands that `encoder` records after this call.
    ///
    /// # Errors
    /// See [`Self::take`] for the errors.
    pub fn take_zeroed(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<Pooled> {
        let buffer = self.take(label, bytes, usage | wgpu::BufferUsages::COPY_DST)?;
        encoder.clear_buffer(&buffer, 0, None);
        Ok(buffer)
    }

    /// Drops all free buffers; the driver frees those in flight when it is done with them. Returns their bytes.
    pub fn trim(&self) -> u64 {
        let mut state = self.inner.lock();
        let free = std::mem::take(&mut state.free);
        state.stats.evicted += free.values().map(|list| list.len() as u64).sum::<u64>();
        let bytes = std::mem::take(&mut state.stats.pooled_bytes);
        // wgpu has its own locks, so no wgpu object is dropped under the lock of the pool.
        drop(state);
        drop(free);
        bytes
    }

    /// Returns the content and history of the pool.
    pub fn stats(&self) -> PoolStats {
        let state = self.inner.lock();
        PoolStats {
            pooled: state.free.values().map(|list| list.len() as u64).sum(),
            size_classes: state.free.len() as u64,
            ..state.stats
        }
    }

    /// Bounds the free buffers of each size class and use, from now on; `None` (the default) removes the limit. Buffers
    /// beyond the limit are evicted, those returned first at the front.
    pub fn set_max_buffers_per_size(&self, most: Option<usize>) {
        let mut state = self.inner.lock();
        state.stats.max_buffers_per_size = most;
        let keys: Vec<Key> = state.free.keys().copied().collect();
        let evicted: Vec<Free> = keys.into_iter().flat_map(|key| state.evict(key)).collect();
        // wgpu has its own locks, so no wgpu object is dropped under the lock of the pool.
        drop(state);
        drop(evicted);
    }

    fn reuse(&self, size: u64, usage: wgpu::BufferUsages) -> Option<wgpu::Buffer> {
        let key = (usage.bits(), size);
        let found = self.inner.take_idle(key);
        if found.is_some() || !self.inner.lock().free.contains_key(&key) {
            return found;
        }
        // Free buffers exist, but they were in flight at the last poll of the device.
        self.inner.link.poll();
        self.inner.take_idle(key)
    }

    fn allocate(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        let inner = &self.inner;
        let mut made = inner.make(label, size, usage)?;
        if made.is_none() {
            self.trim();
            inner.link.wait()?;
            made = inner.make(label, size, usage)?;
        }
        let buffer = made.ok_or_else(|| inner.out_of_memory(label, size))?;
        let mut state = inner.lock();
        state.stats.allocations += 1;
        state.stats.handed_out();
        state.stats.live_bytes += size;
        let held = state.stats.live_bytes + state.stats.pooled_bytes;
        state.stats.peak_bytes = state.stats.peak_bytes.max(held);
        Ok(buffer)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(
        &self,
        label: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Option<wgpu::Buffer>> {
        #[cfg(test)]
        {
            let less = |left: u32| left.checked_sub(1);
            if self
                .failing
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok()
            {
                return Ok(None);
            }
        }
        let held = self.lock().stats.total_bytes();
        if held.saturating_add(size) > self.limit {
            return Ok(None);
        }
        self.link.try_buffer(label, size, usage)
    }

    fn out_of_memory(&self, label: &str, size: u64) -> Error {
        match self.limit {
            u64::MAX => self.link.out_of_memory(label, size),
            limit => self
                .link
                .out_of_memory(label, size)
                .at(format!("the limit of {} MiB of its memory", limit >> 20)),
        }
    }

    fn take_idle(&self, key: Key) -> Option<wgpu::Buffer> {
        let mut state = self.lock();
        let list = state.free.get_mut(&key)?;
        // The buffer returned first is at the front: it is the likeliest to be idle.
        let found = list
            .iter()
            .position(|free| free.idle.load(Ordering::Acquire))?;
        let free = list.remove(found);
        if list.is_empty() {
            state.free.remove(&key);
        }
        state.stats.reuses += 1;
        state.stats.handed_out();
        state.stats.pooled_bytes -= key.1;
        state.stats.live_bytes += key.1;
        Some(free.buffer)
    }

    /// Counts the release of a buffer that was handed out.
    fn let_go(&self, buffer: &wgpu::Buffer) {
        let mut state = self.lock();
        state.stats.live -= 1;
        state.stats.evicted += 1;
        state.stats.live_bytes -= buffer.size();
    }

    fn give_back(&self, buffer: wgpu::Buffer, idle: Arc<AtomicBool>) {
        let mut state = self.lock();
        let size = buffer.size();
        state.stats.live -= 1;
        state.stats.live_bytes -= size;
        state.stats.pooled_bytes += size;
        let key = (buffer.usage().bits(), size);
        state
            .free
            .entry(key)
            .or_default()
            .push(Free { buffer, idle });
        let evicted = state.evict(key);
        drop(state);
        drop(evicted);
    }
}

impl State {
    /// Removes the free buffers of a class that are beyond the limit.
    fn evict(&mut self, key: Key) -> Vec<Free> {
        let Some(most) = self.stats.max_buffers_per_size else {
            return Vec::new();
        };
        let Some(list) = self.free.get_mut(&key) else {
            return Vec::new();
        };
        let beyond = list.len().saturating_sub(most);
        let evicted: Vec<Free> = list.drain(..beyond).collect();
        if list.is_empty() {
            self.free.remove(&key);
        }
        self.stats.evicted += beyond as u64;
        self.stats.pooled_bytes -= beyond as u64 * key.1;
        evicted
    }
}

impl Pooled {
    /// Returns the requested bytes; [`wgpu::Buffer::size`] is the actual size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the buffer to the pool as idle: no submitted work uses it.
    pub(crate) fn give_back_idle(mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give_back(buffer, Arc::new(true.into()));
        }
    }

    /// Releases the buffer instead of returning it to the pool: its state is unknown.
    pub(crate) fn discard(mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.let_go(&buffer);
        }
    }
}

impl Deref for Pooled {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("only consuming methods and drop take the buffer"),
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else {
            return;
        };
        if self.is_exact {
            self.pool.let_go(&buffer);
            return;
        }
        let idle = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&idle);
        // Runs in the thread that polls next, so it takes no locks.
        let done = move || mark.store(true, Ordering::Release);
        self.pool.link.queue().on_submitted_work_done(done);
        self.pool.give_back(buffer, idle);
    }
}

/// Returns the bytes of the class for `bytes`.
fn size_class(bytes: u64) -> u64 {
    if bytes <= LEAST {
        return LEAST;
    }
    if bytes > STEPPED {
        return bytes.checked_next_multiple_of(STEP).unwrap_or(bytes);
    }
    bytes.next_multiple_of(bytes.next_power_of_two() / 8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{Choice, Gpu, GpuOptions};

    #[test]
    fn classes_hold_what_is_asked_and_a_quarter_more_at_most() {
        let mut bytes = 1_u64;
        while bytes < 1 << 40 {
            for bytes in [bytes - 1, bytes, bytes + 1, bytes + bytes / 7] {
                let class = size_class(bytes);
                assert!(
                    class >= bytes && class.is_multiple_of(4),
                    "{bytes}: {class}"
                );
                let most = (bytes + bytes / 4).max(LEAST);
                assert!(class <= most + 4, "{bytes}: {class}");
                assert_eq!(size_class(class), class);
            }
            bytes = bytes * 5 / 4 + 1;
        }
        assert_eq!(
            [size_class(1), size_class(257), size_class(640)],
            [256, 320, 640]
        );
        assert_eq!(size_class(STEPPED), STEPPED);
        assert_eq!(size_class(STEPPED + 1), STEPPED + STEP);
        assert_eq!(size_class(u64::MAX), u64::MAX);
    }

    #[test]
    fn no_memory_trims_and_tries_once_more() {
        let options = GpuOptions {
            choice: Choice::Index(0),
            validate: true,
            ..GpuOptions::default()
        };
        let pool = Pool::new(&Gpu::open(&options).unwrap());
        let usage = wgpu::BufferUsages::STORAGE;
        drop(pool.take("free", 4096, usage).unwrap());
        pool.inner.failing.store(1, Ordering::SeqCst);
        let buffer = pool.take("again", 8192, usage).unwrap();
        let stats = pool.stats();
        assert_eq!(
            (stats.pooled_bytes, stats.live_bytes),
            (0, 8192),
            "free ones are let go"
        );
        assert_eq!(stats.peak_bytes, 8192);
        drop(buffer);
        pool.inner.failing.store(2, Ordering::SeqCst);
        let error = pool.take("never", 16384, usage).unwrap_err().to_string();
        assert!(error.contains("no memory left for never"), "{error}");
        assert_eq!(pool.stats().pooled_bytes, 0);
        // The pool still works.
        pool.take("later", 16384, usage).unwrap();
    }
}
