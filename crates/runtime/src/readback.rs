//! [`Readback`]: a copy from the device to the host in flight, without a wait.
//!
//! 1. [`Gpu::begin_read`] records a copy into a staging buffer of the pool, which is mapped after the commands are
//!    submitted and done.
//! 2. [`Readback::take`] checks whether the commands are done. [`Readback::wait`] waits for the submission that copies,
//!    and for no later one. A readback is also a future: a thread waits for the submission and wakes the awaiting task.
//! 3. The staging buffer returns to the pool. A buffer whose commands were never submitted does not return: they might
//!    still be submitted, and would map it under its next owner.

use crate::Gpu;
use crate::host_memory::{LARGE, copy_to_host, zeroed_host_memory};
use crate::link::Link;
use crate::pool::Pooled;
use bytemuck::Pod;
use dapple_base::{Error, Result};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Longest wait for the callback of a copy that is done.
const CALLBACK_TIME: Duration = Duration::from_secs(10);

const ON_ITS_WAY: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

/// Values in flight to the host.
#[derive(Debug)]
pub struct Readback<T> {
    /// `None` after the values were taken.
    staging: Option<Pooled>,
    bytes: usize,
    shared: Arc<Shared>,
    /// Submission that copies the values, if known.
    submission: Option<wgpu::SubmissionIndex>,
    link: Link,
    values: PhantomData<T>,
}

/// State that the callback sets.
#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    /// Waker of the task that awaits the values; true if a thread waits for the submission.
    waker: Mutex<(Option<Waker>, bool)>,
}

/// Sets the state, also when wgpu drops the callback without a call.
struct Signal(Arc<Shared>);

impl Signal {
    fn set(&self, state: u8) {
        let told =
            self.0
                .state
                .compare_exchange(ON_ITS_WAY, state, Ordering::Release, Ordering::Relaxed);
        if told.is_ok()
            && let Some(waker) = self.0.lock().0.take()
        {
            waker.wake();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (Option<Waker>, bool)> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.set(FAILED);
    }
}

impl Gpu {
    /// Records the copy of `count` values, `offset` bytes into `buffer`, to the host. The values can be taken after
    /// `encoder` was submitted and the device is done with it. Offset and bytes are multiples of 4.
    ///
    /// # Errors
    /// No memory for the copy, a lost device.
    pub fn begin_read<T: Pod>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        buffer: &wgpu::Buffer,
        offset: u64,
        count: usize,
    ) -> Result<Readback<T>> {
        let bytes = count * size_of::<T>();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self
            .pool()
            .take("a copy for the host", bytes as u64, usage)?;
        let copied = (bytes as u64).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        let shared = Arc::new(Shared {
            state: AtomicU8::new(ON_ITS_WAY),
            waker: Mutex::default(),
        });
        if copied > 0 {
            encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, Some(copied));
        }
        let signal = Signal(Arc::clone(&shared));
        encoder.map_buffer_on_submit(&staging, wgpu::MapMode::Read, .., move |result| {
            signal.set(if result.is_ok() { MAPPED } else { FAILED });
        });
        self.link().tally.read(bytes as u64);
        Ok(Readback {
            staging: Some(staging),
            bytes,
            shared,
            submission: None,
            link: self.link().clone(),
            values: PhantomData,
        })
    }

    /// Copies the first `count` values of a buffer to the host, after all work submitted before, and waits for the
    /// copy. Many values arrive in pieces, each a submission: no other thread may write the buffer during the copy.
    ///
    /// # Errors
    /// A lost device, no memory for the copy.
    pub fn read<T: Pod>(&self, buffer: &wgpu::Buffer, count: usize) -> Result<Vec<T>> {
        self.read_at(buffer, 0, count)
    }

    /// [`Self::read`] from byte `offset`.
    ///
    /// # Errors
    /// See [`Self::read`] for the errors.
    pub fn read_at<T: Pod>(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        count: usize,
    ) -> Result<Vec<T>> {
        if (count * size_of::<T>()) as u64 >= LARGE {
            return self.read_large(buffer, offset, count);
        }
        let mut encoder = self.encoder();
        let mut readback = self.begin_read(&mut encoder, buffer, offset, count)?;
        readback.submitted(self.submit(encoder));
        readback.wait()
    }
}

impl<T: Pod> Readback<T> {
    /// Sets the submission that copies the values, so that [`Self::wait`] waits for no later one, and an awaiting task
    /// is woken.
    pub fn submitted(&mut self, submission: wgpu::SubmissionIndex) {
        self.submission = Some(submission);
    }

    /// Returns the values after the submission that copies them; without a known submission, after all work.
    ///
    /// # Errors
    /// See [`Self::finish`] for the errors.
    pub fn wait(&mut self) -> Result<Vec<T>> {
        self.arrive()?;
        self.finish()
    }

    /// Waits for the submission that copies the values; without a known submission, for all work.
    fn arrive(&self) -> Result<()> {
        match self.submission.clone() {
            _ if self.shared.state() != ON_ITS_WAY => return Ok(()),
            Some(submission) => self.link.wait_for(submission),
            None => self.link.wait(),
        }?;
        self.signalled();
        Ok(())
    }

    /// Waits for the callback of a copy that is done. Another thread that polls the device may have taken the callback
    /// and not called it yet.
    fn signalled(&self) {
        let started = Instant::now();
        while self.shared.state() == ON_ITS_WAY && started.elapsed() < CALLBACK_TIME {
            std::thread::sleep(Duration::from_micros(20));
            self.link.poll();
        }
    }

    /// Starts a thread that waits for the submission and wakes the awaiting task, unless such a thread exists.
    fn wake_when_done(&self) {
        let Some(submission) = self.submission.clone() else {
            // There is no known submission to wait for.
            if let Some(waker) = self.shared.lock().0.take() {
                waker.wake();
            }
            return;
        };
        if std::mem::replace(&mut self.shared.lock().1, true) {
            return;
        }
        let (link, shared) = (self.link.clone(), Arc::clone(&self.shared));
        let wait = move || {
            // The woken task receives the failure.
            let _ = link.wait_for(submission);
            let mut waiting = shared.lock();
            waiting.1 = false;
            if let Some(waker) = waiting.0.take() {
                waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name("readback".to_owned());
        if thread.spawn(wait).is_err() {
            let mut waiting = self.shared.lock();
            waiting.1 = false;
            if let Some(waker) = waiting.0.take() {
                waker.wake();
            }
        }
    }

    /// Returns the values, after a wait for the commands that copy them.
    ///
    /// # Errors
    /// See [`Self::take`] for the errors; also a copy that has not arrived after the wait.
    pub fn finish(&mut self) -> Result<Vec<T>> {
        let values = self.take()?;
        values.ok_or_else(|| self.link.lost_error("a copy never finished"))
    }

    /// Returns the values after they have arrived; `None` until then. Does not wait. The values can be taken once.
    ///
    /// # Errors
    /// A lost device; commands that were dropped instead of submitted; values taken before.
    pub fn take(&mut self) -> Result<Option<Vec<T>>> {
        self.take_with(copied)
    }

    /// [`Self::wait`] without a vector: `with` receives the mapped bytes.
    ///
    /// # Errors
    /// See [`Self::finish`] for the errors.
    pub(crate) fn wait_with<R>(&mut self, with: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.arrive()?;
        let result = self.take_with(with)?;
        result.ok_or_else(|| self.link.lost_error("a copy never finished"))
    }

    fn take_with<R>(&mut self, with: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        if self.shared.state() == ON_ITS_WAY {
            self.link.poll();
        }
        match self.shared.state() {
            ON_ITS_WAY => return self.link.check().map(|()| None),
            MAPPED => {}
            _ => {
                self.link.check()?;
                return Err(Error::internal("a copy for the host was never submitted"));
            }
        }
        let staging = self
            .staging
            .take()
            .ok_or_else(|| Error::internal("values were read back a second time"))?;
        let view = staging
            .get_mapped_range(..)
            .map_err(|e| self.link.lost_error(&e.to_string()))?;
        let values = with(&view[..self.bytes]);
        drop(view);
        staging.unmap();
        staging.give_back_idle();
        Ok(Some(values))
    }
}

impl Readback<u8> {
    /// Converts to a readback of the same bytes as values of another type.
    pub(crate) fn typed<T>(mut self) -> Readback<T> {
        Readback {
            staging: self.staging.take(),
            bytes: self.bytes,
            shared: Arc::clone(&self.shared),
            submission: self.submission.take(),
            link: self.link.clone(),
            values: PhantomData,
        }
    }
}

impl<T> Unpin for Readback<T> {}

impl<T: Pod> Future for Readback<T> {
    type Output = Result<Vec<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Stored before the state is read, so that a signal in between wakes the task.
        this.shared.lock().0 = Some(context.waker().clone());
        match this.take().transpose() {
            Some(values) => Poll::Ready(values),
            None => {
                this.wake_when_done();
                Poll::Pending
            }
        }
    }
}

/// Copies the values from bytes, on all cores: at hundreds of megabytes most of the time is spent on pages that the
/// system provides for the first time.
fn copied<T: Pod>(bytes: &[u8]) -> Vec<T> {
    let mut values: Vec<T> = zeroed_host_memory(bytes.len() / size_of::<T>().max(1));
    copy_to_host(bytes, bytemuck::cast_slice_mut::<T, u8>(&mut values));
    values
}

impl<T> Drop for Readback<T> {
    fn drop(&mut self) {
        let Some(staging) = self.staging.take() else {
            return;
        };
        if self.shared.state() == MAPPED {
            staging.unmap();
            staging.give_back_idle();
        } else {
            staging.discard();
        }
    }
}
