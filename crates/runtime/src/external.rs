//! Buffers whose memory other interfaces to the same GPU can import, such as CUDA: Vulkan on Linux.
//!
//! 1. [`Gpu::external_buffer`] allocates memory of its own for a buffer, and exports it as a file descriptor.
//! 2. The other interface imports the descriptor (CUDA: `cuImportExternalMemory` with an opaque descriptor).
//! 3. Both sides see the same bytes. Neither orders its work after that of the other: the caller waits in between, or
//!    uses semaphores (external_semaphore.rs).

use crate::Gpu;
use ash::{khr, vk};
use dapple_base::{Error, Result};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use wgpu::hal::api::Vulkan;
use wgpu::hal::vulkan;

/// Kind of the exported handle.
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// A buffer, and the handle of its memory.
#[derive(Debug)]
pub struct ExternalBuffer {
    /// The buffer, with the uses `COPY_SRC`, `COPY_DST` and `STORAGE`.
    pub buffer: wgpu::Buffer,
    /// Handle of the memory. An import takes ownership of it.
    pub handle: OwnedFd,
    /// Bytes of the memory, at least those of the buffer.
    pub memory_bytes: u64,
}

impl Gpu {
    /// Allocates a buffer whose memory other interfaces can import.
    ///
    /// # Errors
    /// A device without this ability ([`crate::DeviceRequirements::external_memory`]); no memory.
    pub fn external_buffer(&self, label: &str, bytes: u64) -> Result<ExternalBuffer> {
        let lacks = || {
            Error::unsupported(format!("{} does not share its memory", self.device_name()))
                .hint("use Vulkan on Linux, with a driver that has VK_KHR_external_memory_fd")
        };
        if !self
            .device()
            .features()
            .contains(wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD)
        {
            return Err(lacks());
        }
        // SAFETY: the device is not destroyed while the guard is alive.
        let device = unsafe { self.device().as_hal::<Vulkan>() }.ok_or_else(lacks)?;
        let refused = |failure| refused(label, bytes, failure);
        let raw = Raw::new(&device, bytes, None).map_err(refused)?;
        let handle = raw.export(&device).map_err(refused)?;
        drop(device);
        let memory_bytes = raw.bytes;
        Ok(ExternalBuffer {
            buffer: self.adopt(label, raw, bytes),
            handle,
            memory_bytes,
        })
    }

    /// Creates a buffer of memory that another interface to the same GPU allocated and exported: the handle, and the
    /// bytes of the memory.
    ///
    /// # Errors
    /// A device without this ability, memory of another GPU.
    pub fn imported_buffer(
        &self,
        label: &str,
        bytes: u64,
        memory: (OwnedFd, u64),
    ) -> Result<wgpu::Buffer> {
        // SAFETY: the device is not destroyed while the guard is alive.
        let device = unsafe { self.device().as_hal::<Vulkan>() }
            .ok_or_else(|| Error::unsupported("only Vulkan imports memory"))?;
        let raw = Raw::new(&device, bytes, Some(memory))
            .map_err(|failure| refused(label, bytes, failure))?;
        drop(device);
        Ok(self.adopt(label, raw, bytes))
    }

    /// Returns a buffer of Vulkan as one of wgpu.
    fn adopt(&self, label: &str, raw: Raw, bytes: u64) -> wgpu::Buffer {
        // SAFETY: buffer and memory are this device's, and belong to wgpu from here on.
        unsafe {
            let owned = vulkan::Buffer::from_raw_managed(raw.buffer, raw.memory, 0, raw.bytes);
            self.device().create_buffer_from_hal::<Vulkan>(
                owned,
                &wgpu::BufferDescriptor {
                    label: Some(label),
                    size: bytes,
                    usage: wgpu::BufferUsages::COPY_SRC
                        | wgpu::BufferUsages::COPY_DST
                        | wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                },
            )
        }
    }
}

fn refused(label: &str, bytes: u64, (what, result): Failure) -> Error {
    Error::unsupported(format!(
        "cannot share {bytes} bytes of GPU memory: {what}: {result}"
    ))
    .at(label.to_owned())
}

/// Objects of Vulkan.
struct Raw {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
}

/// Name of a call that failed, and its result.
type Failure = (&'static str, vk::Result);

impl Raw {
    /// Creates a buffer of this many bytes with memory of its own that can be exported, or with imported memory.
    fn new(
        device: &vulkan::Device,
        bytes: u64,
        import: Option<(OwnedFd, u64)>,
    ) -> Result<Self, Failure> {
        let raw = device.raw_device();
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(
                vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST
                    | vk::BufferUsageFlags::STORAGE_BUFFER,
            )
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .push_next(&mut external);
        // SAFETY: the structures are valid, and the device is alive.
        let buffer = unsafe { raw.create_buffer(&info, None) }.map_err(|e| ("buffer", e))?;
        // SAFETY: the buffer belongs to this device.
        let needs = unsafe { raw.get_buffer_memory_requirements(buffer) };
        let bytes = import.as_ref().map_or(needs.size, |(_, bytes)| *bytes);
        let memory = allocate(device, buffer, &needs, import).inspect_err(|_| {
            // SAFETY: nothing uses the buffer.
            unsafe { raw.destroy_buffer(buffer, None) };
        })?;
        let own = Self {
            buffer,
            memory,
            bytes,
        };
        // SAFETY: the memory is bound once, at its start.
        match unsafe { raw.bind_buffer_memory(buffer, memory, 0) } {
            Ok(()) => Ok(own),
            Err(e) => {
                own.destroy(device);
                Err(("binding", e))
            }
        }
    }

    /// Returns a handle of the memory; destroys buffer and memory if there is none.
    fn export(&self, device: &vulkan::Device) -> Result<OwnedFd, Failure> {
        let instance = device.shared_instance().raw_instance();
        let functions = khr::external_memory_fd::Device::new(instance, device.raw_device());
        let get = vk::MemoryGetFdInfoKHR::default()
            .memory(self.memory)
            .handle_type(HANDLE);
        // SAFETY: the memory was allocated for export.
        match unsafe { functions.get_memory_fd(&get) } {
            // SAFETY: a new descriptor, which belongs to this process alone.
            Ok(handle) => Ok(unsafe { OwnedFd::from_raw_fd(handle) }),
            Err(e) => {
                self.destroy(device);
                Err(("export", e))
            }
        }
    }

    fn destroy(&self, device: &vulkan::Device) {
        // SAFETY: nothing uses them.
        unsafe {
            device.raw_device().destroy_buffer(self.buffer, None);
            device.raw_device().free_memory(self.memory, None);
        }
    }
}

/// Allocates memory of the device that can be exported, for one buffer alone; or imports memory.
fn allocate(
    device: &vulkan::Device,
    buffer: vk::Buffer,
    needs: &vk::MemoryRequirements,
    import: Option<(OwnedFd, u64)>,
) -> Result<vk::DeviceMemory, Failure> {
    let instance = device.shared_instance().raw_instance();
    // SAFETY: the physical device belongs to this instance.
    let types =
        unsafe { instance.get_physical_device_memory_properties(device.raw_physical_device()) };
    let is_fit = |i: u32| {
        needs.memory_type_bits & (1 << i) != 0
            && types.memory_types[i as usize]
                .property_flags
                .contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
    };
    let kind = (0..types.memory_type_count)
        .find(|&i| is_fit(i))
        .ok_or(("memory", vk::Result::ERROR_FEATURE_NOT_PRESENT))?;
    let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
    let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(HANDLE);
    let mut imported = vk::ImportMemoryFdInfoKHR::default().handle_type(HANDLE);
    let info = vk::MemoryAllocateInfo::default().memory_type_index(kind);
    let info = match import {
        Some((_, bytes)) if bytes < needs.size => {
            return Err(("import", vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
        }
        Some((handle, bytes)) => {
            // The import takes ownership of the handle.
            imported = imported.fd(handle.into_raw_fd());
            info.allocation_size(bytes).push_next(&mut imported)
        }
        None => info
            .allocation_size(needs.size)
            .push_next(&mut dedicated)
            .push_next(&mut export),
    };
    // SAFETY: the structures are valid, and the device is alive.
    unsafe { device.raw_device().allocate_memory(&info, None) }.map_err(|e| ("memory", e))
}
