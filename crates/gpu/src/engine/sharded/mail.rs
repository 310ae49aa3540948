//! [`GpuShipment`]: numbers for engines on other GPUs. [`Mail`]: the buffers of an engine for them.
//!
//! Kernels write shipments into buffers that other GPUs can copy from ([`PeerBuffer`]), and read shipments where they
//! arrive: on the same GPU without a copy.

use crate::layout::SUM_PLACES;
use dapple_engine::Shipment;
use dapple_runtime::{ByteSlice, Gpu, PeerBuffer, PeerCopy, wgpu};
use dapple_scene::{Error, Result};
use std::sync::Arc;

/// Alignment of shipments in a buffer: bindings begin there.
pub const ALIGNMENT: u64 = 256;

/// Numbers that travel between engines on GPUs, on the GPU of their origin or on the host.
#[derive(Debug, Clone, Default)]
pub struct GpuShipment(Held);

#[derive(Debug, Clone)]
enum Held {
    Host(Arc<Vec<u8>>),
    Device {
        buffer: Arc<PeerBuffer>,
        first: u64,
        bytes: u64,
        /// Where data begins that does not travel.
        local: u64,
    },
}

impl Default for Held {
    fn default() -> Self {
        Self::Host(Arc::default())
    }
}

impl GpuShipment {
    /// Returns a range of a buffer as a shipment.
    fn of(buffer: &Arc<PeerBuffer>, first: u64, bytes: u64) -> Self {
        Self(Held::Device {
            buffer: Arc::clone(buffer),
            first,
            bytes,
            local: first + bytes,
        })
    }

    /// Returns the beginning of a shipment on a device.
    pub fn cut(&self, to: u64) -> Self {
        let mut cut = self.clone();
        if let Held::Device { bytes, .. } = &mut cut.0 {
            *bytes = to;
        }
        cut
    }

    /// Returns the first `bytes` as a shipment. The data after `at` bytes stay in this engine.
    pub fn with_local(&self, bytes: u64, at: u64) -> Self {
        let mut own = self.cut(bytes);
        if let Held::Device { first, local, .. } = &mut own.0 {
            *local = *first + at;
        }
        own
    }

    /// Returns bytes that do not travel with the shipment: [`Self::with_local`].
    ///
    /// # Errors
    /// Fewer bytes; a shipment of another process.
    pub fn local(&self, bytes: u64) -> Result<ByteSlice> {
        match &self.0 {
            Held::Device { buffer, local, .. } => {
                ByteSlice::from(buffer.buffer()).part(*local, bytes)
            }
            Held::Host(_) => Err(Error::internal(
                "a shipment of another process has no indices",
            )),
        }
    }

    /// Returns the buffer of a shipment up to its end as one; `None` if it is not on a device.
    pub fn with_those_before(&self) -> Option<Self> {
        match &self.0 {
            Held::Device {
                buffer,
                first,
                bytes,
                ..
            } => Some(Self::of(buffer, 0, first + bytes)),
            Held::Host(_) => None,
        }
    }

    /// Returns the first word in its buffer.
    ///
    /// # Errors
    /// The shipment ends beyond [`SUM_PLACES`].
    pub fn first_word(&self) -> Result<u32> {
        let Held::Device { first, bytes, .. } = &self.0 else {
            return Ok(0);
        };
        let [word, end] = [*first, first + bytes].map(|at| at / size_of::<u32>() as u64);
        match u32::try_from(word) {
            Ok(word) if end <= u64::from(SUM_PLACES) => Ok(word),
            _ => Err(Error::unsupported(
                "the sums of a view take more than 2 GiB: a photo shows too many Gaussians",
            )
            .hint("lower --max-gaussians or the resolution")),
        }
    }

    /// Returns the bytes on the GPU of their origin.
    pub fn slice(&self) -> Result<ByteSlice> {
        match &self.0 {
            Held::Device {
                buffer,
                first,
                bytes,
                ..
            } => ByteSlice::from(buffer.buffer()).part(*first, *bytes),
            Held::Host(_) => Err(Error::internal(
                "a shipment of another process is on no GPU",
            )),
        }
    }
}

impl Shipment for GpuShipment {
    fn len(&self) -> usize {
        match &self.0 {
            Held::Host(bytes) => bytes.len(),
            Held::Device { bytes, .. } => *bytes as usize,
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Held::Host(bytes) => Ok(bytes.to_vec()),
            Held::Device {
                buffer,
                first,
                bytes,
                ..
            } => buffer.read(*first, *bytes),
        }
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Held::Host(Arc::new(bytes)))
    }
}

/// Buffers of an engine for shipments.
#[derive(Debug, Default)]
pub struct Mail {
    /// Shipments, which other engines may still read.
    sent: Vec<Arc<PeerBuffer>>,
    /// Buffers for shipments of other GPUs, with their last use.
    inboxes: Vec<(Arc<PeerBuffer>, LastUse)>,
}

/// Shipment on the GPU of its reader.
#[derive(Debug)]
pub struct Received {
    bytes: ByteSlice,
    coming: Option<PeerCopy>,
}

impl Received {
    /// Returns the bytes once they are there.
    pub fn arrive(self) -> Result<ByteSlice> {
        if let Some(coming) = self.coming {
            coming.wait()?;
        }
        Ok(self.bytes)
    }
}

/// Last use of an inbox.
#[derive(Debug)]
enum LastUse {
    /// In commands that are not submitted yet.
    Coming,
    /// In this submission.
    Submitted(wgpu::SubmissionIndex),
}

/// Inboxes that are kept before the oldest is used again.
const INBOXES: usize = 16;

impl Mail {
    /// Returns shipments of these sizes that the engine's kernels may write. Other engines may copy from them after a
    /// wait of this engine.
    pub fn outgoing(&mut self, gpu: &Gpu, sizes: &[u64]) -> Result<Vec<GpuShipment>> {
        let bytes = sizes.iter().map(|size| size.next_multiple_of(ALIGNMENT));
        let bytes = bytes.sum::<u64>().max(ALIGNMENT);
        let is_free = |buffer: &Arc<PeerBuffer>| Arc::strong_count(buffer) == 1;
        let fits = |buffer: &Arc<PeerBuffer>| buffer.bytes() >= bytes;
        let mut sent = self.sent.iter();
        let buffer = match sent.find(|buffer| is_free(buffer) && fits(buffer)) {
            Some(buffer) => Arc::clone(buffer),
            None => {
                self.sent.retain(|buffer| !is_free(buffer) || fits(buffer));
                let buffer = Arc::new(gpu.peer_buffer("sent", enlarged(bytes))?);
                self.sent.push(Arc::clone(&buffer));
                buffer
            }
        };
        let mut first = 0;
        let shipments = sizes.iter().map(|&size| {
            let shipment = GpuShipment::of(&buffer, first, size);
            first += size.next_multiple_of(ALIGNMENT);
            shipment
        });
        Ok(shipments.collect())
    }

    /// Begins to bring a shipment to `gpu`. Commands that read it are encoded next, and [`Self::submitted`] follows the last
    /// submission of them.
    pub fn receive(&mut self, gpu: &Gpu, shipment: &GpuShipment) -> Result<Received> {
        let here = |bytes| Received {
            bytes,
            coming: None,
        };
        let (buffer, first, bytes) = match &shipment.0 {
            // No buffer is empty.
            Held::Host(held) if held.is_empty() => {
                return Ok(here((&gpu.upload("received", &[0u32])?).into()));
            }
            Held::Host(held) => return Ok(here((&gpu.upload("received", held)?).into())),
            Held::Device {
                buffer,
                first,
                bytes,
                ..
            } => (buffer, *first, *bytes),
        };
        if buffer.gpu().is_same(gpu) {
            return shipment.slice().map(here);
        }
        let inbox = self.inbox(gpu, bytes)?;
        let coming = inbox.begin_copy_from(0, buffer, first, bytes)?;
        Ok(Received {
            bytes: ByteSlice::from(inbox.buffer()).part(0, bytes)?,
            coming: Some(coming),
        })
    }

    /// Notes that the commands that read shipments are submitted.
    pub fn submitted(&mut self, submission: &wgpu::SubmissionIndex) {
        for (_, last_use) in &mut self.inboxes {
            if matches!(last_use, LastUse::Coming) {
                *last_use = LastUse::Submitted(submission.clone());
            }
        }
    }

    /// Returns an inbox that is free and large enough.
    fn inbox(&mut self, gpu: &Gpu, bytes: u64) -> Result<Arc<PeerBuffer>> {
        let oldest = self.inboxes.iter();
        let oldest = oldest
            .clone()
            .position(|(_, last_use)| matches!(last_use, LastUse::Submitted(_)))
            .filter(|_| oldest.len() >= INBOXES);
        let used = oldest.map(|oldest| self.inboxes.remove(oldest));
        let buffer = match used {
            Some((buffer, last_use)) => {
                if let LastUse::Submitted(submission) = last_use {
                    gpu.wait_for(submission)?;
                }
                Some(buffer).filter(|buffer| buffer.bytes() >= bytes)
            }
            None => None,
        };
        let buffer = match buffer {
            Some(buffer) => buffer,
            None => Arc::new(gpu.peer_buffer("received", enlarged(bytes))?),
        };
        self.inboxes.push((Arc::clone(&buffer), LastUse::Coming));
        Ok(buffer)
    }
}

/// Returns the size of a new buffer for this many bytes: numbers of visible Gaussians differ from view to view.
fn enlarged(bytes: u64) -> u64 {
    (bytes + bytes / 2).max(1 << 16).next_multiple_of(ALIGNMENT)
}
