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
        let raw = Raw::new(&device, bytes).map_err(|(what, result)| {
            Error::unsupported(format!(
                "cannot share {bytes} bytes of GPU memory: {what}: {result}"
            ))
            .at(label.to_owned())
        })?;
        drop(device);
        // SAFETY: buffer and memory are this device's, and belong to wgpu from here on.
        let buffer = unsafe {
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
        };
        Ok(ExternalBuffer {
            buffer,
            handle: raw.handle,
            memory_bytes: raw.bytes,
        })
    }
}

/// Objects of Vulkan.
struct Raw {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    handle: OwnedFd,
}

/// Name of a call that failed, and its result.
type Failure = (&'static str, vk::Result);

impl Raw {
    /// Creates a buffer of this many bytes with memory of its own, and exports the memory.
    fn new(device: &vulkan::Device, bytes: u64) -> Result<Self, Failure> {
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
        let memory = allocate(device, buffer, &needs).inspect_err(|_| {
            // SAFETY: nothing uses the buffer.
            unsafe { raw.destroy_buffer(buffer, None) };
        })?;
        let handle = export(device, buffer, memory).inspect_err(|_| {
            // SAFETY: nothing uses them.
            unsafe {
                raw.destroy_buffer(buffer, None);
                raw.free_memory(memory, None);
            }
        })?;
        Ok(Self {
            buffer,
            memory,
            bytes: needs.size,
            handle,
        })
    }
}

/// Allocates memory of the device that can be exported, for one buffer alone.
fn allocate(
    device: &vulkan::Device,
    buffer: vk::Buffer,
    needs: &vk::MemoryRequirements,
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
    let info = vk::MemoryAllocateInfo::default()
        .allocation_size(needs.size)
        .memory_type_index(kind)
        .push_next(&mut dedicated)
        .push_next(&mut export);
    // SAFETY: the structures are valid, and the device is alive.
    unsafe { device.raw_device().allocate_memory(&info, None) }.map_err(|e| ("memory", e))
}

/// Binds memory to its buffer and returns a handle of the memory.
fn export(
    device: &vulkan::Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
) -> Result<OwnedFd, Failure> {
    let raw = device.raw_device();
    let functions =
        khr::external_memory_fd::Device::new(device.shared_instance().raw_instance(), raw);
    let get = vk::MemoryGetFdInfoKHR::default()
        .memory(memory)
        .handle_type(HANDLE);
    // SAFETY: the memory was allocated for export, and is bound once, at its start.
    let handle = unsafe {
        raw.bind_buffer_memory(buffer, memory, 0)
            .and_then(|()| functions.get_memory_fd(&get))
    };
    // SAFETY: a new descriptor, which belongs to this process alone.
    handle
        .map(|handle| unsafe { OwnedFd::from_raw_fd(handle) })
        .map_err(|e| ("export", e))
}
