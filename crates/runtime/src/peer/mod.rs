//! [`PeerBuffer`]: a buffer that other GPUs of this process copy from.
//!
//! With the CUDA driver, bytes go from GPU to GPU. Otherwise they go through the host.

#[cfg(target_os = "linux")]
mod cuda;

use crate::Gpu;
use dapple_base::{Error, Result};

/// A buffer that other GPUs copy from and to.
#[derive(Debug)]
pub struct PeerBuffer {
    gpu: Gpu,
    buffer: wgpu::Buffer,
    #[cfg(target_os = "linux")]
    cuda: Option<cuda::Imported>,
}

impl Gpu {
    /// Allocates a buffer that other GPUs of this process can copy from, with the uses `COPY_SRC`, `COPY_DST` and
    /// `STORAGE`.
    ///
    /// # Errors
    /// No memory.
    pub fn peer_buffer(&self, label: &str, bytes: u64) -> Result<PeerBuffer> {
        let bytes = bytes.max(wgpu::COPY_BUFFER_ALIGNMENT);
        #[cfg(target_os = "linux")]
        if let (Some(bus), Ok(external)) =
            (&self.report().pci_bus, self.external_buffer(label, bytes))
        {
            let buffer = external.buffer.clone();
            // Without an import, bytes go through the host.
            let cuda = cuda::Imported::new(bus, external).ok().flatten();
            return Ok(PeerBuffer {
                gpu: self.clone(),
                buffer,
                cuda,
            });
        }
        let usage = wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::STORAGE;
        let buffer = self.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        self.check()?;
        Ok(PeerBuffer {
            gpu: self.clone(),
            buffer,
            #[cfg(target_os = "linux")]
            cuda: None,
        })
    }
}

impl PeerBuffer {
    /// Returns the buffer.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Returns the GPU of the buffer.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Returns the bytes of the buffer.
    pub fn bytes(&self) -> u64 {
        self.buffer.size()
    }

    /// Copies bytes from a buffer of any GPU, and waits for them. Work that fills the source or reads the target must be
    /// done. Offsets and bytes are multiples of 4.
    ///
    /// # Errors
    /// A range outside of a buffer, a lost device.
    pub fn copy_from(&self, at: u64, source: &Self, from: u64, bytes: u64) -> Result<()> {
        let fits = |first: u64, buffer: &Self| first.saturating_add(bytes) <= buffer.bytes();
        if !fits(at, self) || !fits(from, source) {
            return Err(Error::internal("a copy between GPUs beyond a buffer"));
        }
        if bytes == 0 {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        if let (Some(to), Some(source)) = (&self.cuda, &source.cuda) {
            return to.copy_from(at, source, from, bytes);
        }
        let words: Vec<u32> = source
            .gpu
            .read_at(&source.buffer, from, (bytes / 4) as usize)?;
        self.gpu.write(&self.buffer, at, &words);
        self.gpu.check()
    }
}
