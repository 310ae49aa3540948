//! Buffers whose memory other interfaces to the same GPU can import, such as CUDA: Vulkan on Linux.
//!
//! 1. [`Gpu::external_buffer`] allocates memory of its own for a buffer, and exports it as a file descriptor.
//! 2. The other interface imports the descriptor (CUDA: `cuImportExternalMemory` with an opaque descriptor).
//! 3. Both sides see the same bytes. Neither orders its work after that of the other: the caller waits in between.

use crate::Gpu;
use ash::{khr, vk};
use dapple_base::{Error, Result};
use std::os::fd::{FromRawFd, OwnedFd};
use wgpu::hal::api::Vulkan;

/// Kind of the exported handle.
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// A buffer, and the handle of its memory.
#[derive(Debug)]
pub struct ExternalBuffer {
    /// The buffer, with the uses `COPY_SRC` and `COPY_DST`.
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
        let instance = device.shared_instance().raw_instance();
        let raw = device.raw_device();
        let failed = |what: &str, result: vk::Result| {
            Error::unsupported(format!("cannot share {bytes} bytes of GPU memory: {what}: {result}"))
                .at(label.to_owned())
        };

        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .push_next(&mut external);
        // SAFETY: the structures are valid, and the device is alive.
        let buffer =
            unsafe { raw.create_buffer(&info, None) }.map_err(|e| failed("buffer", e))?;
        // SAFETY: the buffer belongs to this device.
        let needs = unsafe { raw.get_buffer_memory_requirements(buffer) };
        // SAFETY: the physical device belongs to this instance.
        let types =
            unsafe { instance.get_physical_device_memory_properties(device.raw_physical_device()) };
        let is_fit = |i: u32| {
            needs.memory_type_bits & (1 << i) != 0
                && types.memory_types[i as usize]
                    .property_flags
                    .contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
        };
        let kind = (0..types.memory_type_count).find(|&i| is_fit(i));

        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(HANDLE);
        let memory = kind.ok_or(vk::Result::ERROR_FEATURE_NOT_PRESENT).and_then(|kind| {
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind)
                .push_next(&mut dedicated)
                .push_next(&mut export);
            // SAFETY: as above.
            unsafe { raw.allocate_memory(&info, None) }
        });
        let memory = memory.map_err(|e| {
            // SAFETY: nothing uses the buffer.
            unsafe { raw.destroy_buffer(buffer, None) };
            failed("memory", e)
        })?;
        let functions = khr::external_memory_fd::Device::new(instance, raw);
        let get = vk::MemoryGetFdInfoKHR::default()
            .memory(memory)
            .handle_type(HANDLE);
        // SAFETY: the memory was allocated for export, and is bound once, at its start.
        let bound = unsafe {
            raw.bind_buffer_memory(buffer, memory, 0)
                .and_then(|()| functions.get_memory_fd(&get))
        };
        let handle = bound.map_err(|e| {
            // SAFETY: nothing uses them.
            unsafe {
                raw.destroy_buffer(buffer, None);
                raw.free_memory(memory, None);
            }
            failed("export", e)
        })?;
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        drop(device);
        // SAFETY: buffer and memory are this device's, and belong to wgpu from here on.
        let buffer = unsafe {
            let owned = wgpu::hal::vulkan::Buffer::from_raw_managed(buffer, memory, 0, needs.size);
            self.device().create_buffer_from_hal::<Vulkan>(
                owned,
                &wgpu::BufferDescriptor {
                    label: Some(label),
                    size: bytes,
                    usage,
                    mapped_at_creation: false,
                },
            )
        };
        Ok(ExternalBuffer {
            buffer,
            // SAFETY: a new descriptor that nobody else owns.
            handle: unsafe { OwnedFd::from_raw_fd(handle) },
            memory_bytes: needs.size,
        })
    }
}
