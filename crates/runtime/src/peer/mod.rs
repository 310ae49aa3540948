//! [`PeerBuffer`]: a buffer that other GPUs of this process copy from.
//!
//! With the CUDA driver, bytes go from GPU to GPU. Otherwise they go through the host: by the driver if the GPUs have no
//! access to each other, else by buffers of the host.

#[cfg(target_os = "linux")]
mod cuda;

use crate::Gpu;
use dapple_base::{Error, Result};

/// Makes later copies between GPUs pass through the host, as where GPUs have no access to each other. For measurements.
pub fn copy_through_host() {
    #[cfg(target_os = "linux")]
    cuda::copy_through_host();
}

/// A buffer that other GPUs copy from and to.
#[derive(Debug)]
pub struct PeerBuffer {
    gpu: Gpu,
    buffer: wgpu::Buffer,
    #[cfg(target_os = "linux")]
    cuda: Option<cuda::Memory>,
}

/// A copy between GPUs that is in progress.
#[derive(Debug, Default)]
#[must_use = "the bytes are there after PeerCopy::wait"]
pub struct PeerCopy {
    #[cfg(target_os = "linux")]
    event: Option<cuda::Event>,
}

impl PeerCopy {
    /// Waits until the bytes are there.
    ///
    /// # Errors
    /// A lost device.
    pub fn wait(self) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(event) = self.event {
            return event.wait();
        }
        Ok(())
    }
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
        if let Some((buffer, memory)) = self.shared_with_cuda(label, bytes) {
            return Ok(PeerBuffer {
                gpu: self.clone(),
                buffer,
                cuda: Some(memory),
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

    /// Returns a buffer of memory of the CUDA driver; `None` if the driver is missing or refuses, or if the device
    /// cannot import memory.
    #[cfg(target_os = "linux")]
    fn shared_with_cuda(&self, label: &str, bytes: u64) -> Option<(wgpu::Buffer, cuda::Memory)> {
        let imports = wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD;
        if !self.device().features().contains(imports) {
            return None;
        }
        let bus = self.report().pci_bus.as_ref()?;
        let (memory, handle) = cuda::Memory::allocate(bus, bytes).ok().flatten()?;
        let exported = (handle, memory.bytes());
        let buffer = self.imported_buffer(label, bytes, exported).ok()?;
        Some((buffer, memory))
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

    /// Copies bytes to the host. Work that fills them must be done; with the CUDA driver, the copy waits for no other
    /// work of the GPU. `from` and `bytes` are multiples of 4.
    ///
    /// # Errors
    /// A range outside of the buffer, a lost device.
    pub fn read(&self, from: u64, bytes: u64) -> Result<Vec<u8>> {
        if from.saturating_add(bytes) > self.bytes() {
            return Err(Error::internal("a copy to the host beyond a buffer"));
        }
        #[cfg(target_os = "linux")]
        if let Some(memory) = self.cuda.as_ref().filter(|_| bytes > 0) {
            let mut out = vec![0; bytes as usize];
            memory.read(from, &mut out)?;
            return Ok(out);
        }
        self.gpu.read_at(&self.buffer, from, bytes as usize)
    }

    /// Begins to copy bytes from a buffer of any GPU. Work that fills the source or reads the target must be done, and
    /// both buffers exist until the copy is done. Offsets and bytes are multiples of 4.
    ///
    /// # Errors
    /// A range outside of a buffer, a lost device.
    pub fn begin_copy_from(
        &self,
        at: u64,
        source: &Self,
        from: u64,
        bytes: u64,
    ) -> Result<PeerCopy> {
        let fits = |first: u64, buffer: &Self| first.saturating_add(bytes) <= buffer.bytes();
        if !fits(at, self) || !fits(from, source) {
            return Err(Error::internal("a copy between GPUs beyond a buffer"));
        }
        if bytes == 0 {
            return Ok(PeerCopy::default());
        }
        #[cfg(target_os = "linux")]
        if let (Some(to), Some(source)) = (&self.cuda, &source.cuda) {
            let event = to.begin_copy_from(at, source, from, bytes)?;
            return Ok(PeerCopy { event: Some(event) });
        }
        let words: Vec<u32> = source
            .gpu
            .read_at(&source.buffer, from, (bytes / 4) as usize)?;
        self.gpu.write(&self.buffer, at, &words);
        self.gpu.check()?;
        Ok(PeerCopy::default())
    }
}
