//! [`Link`]: device and queue with their common error handling: [`Link::check`] returns errors, and waits and
//! submissions are counted.
//!
//! wgpu reports failures out of band, and one of them in band only by a panic.
//! 1. A handler stores the first uncaught error; [`Link::check`] returns it.
//! 2. A lost device is stored permanently: every later check returns the loss.
//! 3. `wgpu::Device::poll` panics when the driver reports a loss during a wait. The panic is caught here and becomes
//!    that error; no other code may poll.

use crate::counters::Tally;
use crate::hints::Hints;
use crate::submission_batch::SubmissionBatch;
use dapple_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Failures reported out of band.
#[derive(Debug, Default)]
struct Failures {
    first: Option<Error>,
    /// Message of the driver at the loss.
    lost: Option<String>,
}

/// Device, queue, failures, counts. Clones share all of them.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) device: wgpu::Device,
    /// Accessed through [`Self::queue`], in the order of calls.
    pub(crate) queue: wgpu::Queue,
    pub(crate) soon: Arc<SubmissionBatch>,
    pub(crate) tally: Arc<Tally>,
    /// The adapter's name, for messages.
    pub(crate) name: Arc<str>,
    pub(crate) hints: Arc<Hints>,
    failures: Arc<Mutex<Failures>>,
}

impl Link {
    pub(crate) fn new(device: wgpu::Device, queue: wgpu::Queue, name: &str, hints: Hints) -> Self {
        let link = Self {
            device,
            queue,
            soon: Arc::default(),
            tally: Arc::default(),
            name: name.into(),
            hints: Arc::new(hints),
            failures: Arc::default(),
        };
        let (failures, hints) = (Arc::clone(&link.failures), Arc::clone(&link.hints));
        link.device
            .on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
                let error = match error {
                    wgpu::Error::OutOfMemory { .. } => {
                        Error::unsupported("the GPU has no memory left").hint(&*hints.memory)
                    }
                    other => Error::internal(format!("the GPU refused: {other}")),
                };
                lock(&failures).first.get_or_insert(error);
            }));
        let failures = Arc::clone(&link.failures);
        link.device
            .set_device_lost_callback(move |reason, message| {
                let closed = reason == wgpu::DeviceLostReason::Destroyed && message.is_empty();
                let message = if closed {
                    "it was closed".to_owned()
                } else {
                    message
                };
                lock(&failures).lost.get_or_insert(message);
            });
        link
    }

    /// Returns the queue, after the submission of all pending commands.
    pub(crate) fn queue(&self) -> &wgpu::Queue {
        self.flush();
        &self.queue
    }

    /// Submits the pending commands.
    pub(crate) fn flush(&self) {
        self.soon.flush(&self.queue, &self.tally);
    }

    /// Submits the commands that `encode` appends, together with pending commands: see [`SubmissionBatch`].
    pub(crate) fn submit_batched(
        &self,
        encode: impl FnOnce(&mut wgpu::CommandEncoder, &mut Option<wgpu::ComputePass<'static>>),
    ) {
        let on = (&self.queue, &*self.tally);
        self.soon.add(on, || self.encoder(), encode);
    }

    /// Runs the callbacks of finished work; does not wait.
    pub(crate) fn poll(&self) {
        let _ = self.poll_with(wgpu::PollType::Poll);
    }

    /// Waits until all submitted work is done.
    pub(crate) fn wait(&self) -> Result<()> {
        self.tally.waited();
        let waited = self.poll_with(wgpu::PollType::wait_indefinitely());
        self.check()?;
        waited.map_err(|message| self.lost_error(&message))
    }

    /// Waits until one submission, and with it all before, is done.
    pub(crate) fn wait_for(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.tally.waited();
        let waited = self.poll_with(wgpu::PollType::Wait {
            submission_index: Some(submission),
            timeout: None,
        });
        self.check()?;
        waited.map_err(|message| self.lost_error(&message))
    }

    fn poll_with(&self, poll: wgpu::PollType) -> std::result::Result<(), String> {
        self.flush();
        match uncaught(|| self.device.poll(poll)) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(message) => {
                lock(&self.failures).lost.get_or_insert(message.clone());
                Err(message)
            }
        }
    }

    /// Returns the first failure since the last check; a lost device in each check.
    pub(crate) fn check(&self) -> Result<()> {
        let mut failures = lock(&self.failures);
        if let Some(message) = &failures.lost {
            return Err(self.lost_error(message));
        }
        failures.first.take().map_or(Ok(()), Err)
    }

    pub(crate) fn is_lost(&self) -> bool {
        // wgpu reports a loss that happened earlier when the device is polled.
        self.poll();
        lock(&self.failures).lost.is_some()
    }

    pub(crate) fn encoder(&self) -> wgpu::CommandEncoder {
        let descriptor = wgpu::CommandEncoderDescriptor::default();
        self.device.create_command_encoder(&descriptor)
    }

    pub(crate) fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        let queue = self.queue();
        self.tally.submitted();
        queue.submit([encoder.finish()])
    }

    /// Returns the size of a buffer for `bytes` bytes.
    ///
    /// # Errors
    /// More than the device puts into one buffer or binding.
    pub(crate) fn buffer_size(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<u64> {
        let size = whole_size(bytes);
        let most = self.most_bytes(usage);
        if size <= most {
            return Ok(size);
        }
        Err(Error::unsupported(format!(
            "{label} needs {:.2} GB in one buffer, and {} takes {:.2} GB at most",
            size as f64 * 1e-9,
            self.name,
            most as f64 * 1e-9
        ))
        .hint(&*self.hints.memory))
    }

    /// Returns the maximum bytes of one buffer of this use, a multiple of 4.
    pub(crate) fn most_bytes(&self, usage: wgpu::BufferUsages) -> u64 {
        let limits = self.device.limits();
        let most = if usage.contains(wgpu::BufferUsages::STORAGE) {
            limits
                .max_buffer_size
                .min(limits.max_storage_buffer_binding_size)
        } else {
            limits.max_buffer_size
        };
        most & !3
    }

    /// Creates a zeroed buffer of exactly `size` bytes; `None` if there is no memory left.
    ///
    /// # Errors
    /// All other failures.
    pub(crate) fn try_buffer(
        &self,
        label: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Option<wgpu::Buffer>> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        if pollster::block_on(scope.pop()).is_some() {
            return Ok(None);
        }
        self.check()?;
        Ok(Some(buffer))
    }

    pub(crate) fn out_of_memory(&self, label: &str, bytes: u64) -> Error {
        Error::unsupported(format!(
            "{} has no memory left for {label} ({:.1} MB)",
            self.name,
            bytes as f64 * 1e-6
        ))
        .hint(&*self.hints.memory)
    }

    /// Returns the error of a lost device.
    pub(crate) fn lost_error(&self, message: &str) -> Error {
        Error::unsupported(format!("the GPU was lost: {}", message.trim())).hint(&*self.hints.lost)
    }
}

/// Returns the bytes of a buffer for `bytes`: empty ones cannot be bound.
pub(crate) fn whole_size(bytes: u64) -> u64 {
    let whole = bytes.max(16).checked_next_multiple_of(4);
    whole.unwrap_or(u64::MAX)
}

/// Runs `call` and converts a panic to its message.
fn uncaught<T>(call: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_else(|| "the driver failed".to_owned())
    })
}

fn lock(failures: &Mutex<Failures>) -> std::sync::MutexGuard<'_, Failures> {
    failures.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(uncaught(|| 3), Ok(3));
        let message = format!("Error in Device::poll: {}", "lost");
        assert_eq!(uncaught::<()>(|| panic!("{message}")), Err(message.clone()));
        assert_eq!(uncaught::<()>(|| panic!("lost")), Err("lost".to_owned()));
    }
}
