//! Semaphores that other interfaces to the same GPU import, such as CUDA: Vulkan on Linux. With them, work of one
//! interface follows that of the other without a wait of the host.
//!
//! 1. [`Gpu::external_semaphore`] creates a timeline semaphore and exports it as a file descriptor. The other interface
//!    imports it (CUDA: `cuImportExternalSemaphore` with a descriptor of a timeline semaphore).
//! 2. Its value only grows. One side signals values, the other waits for them: [`ExternalSemaphore::wait`],
//!    [`ExternalSemaphore::signal_with_next`]. A wait for a value that is never signalled blocks the queue for ever.

use crate::Gpu;
use ash::{khr, vk};
use dapple_base::{Error, Result};
use std::os::fd::{FromRawFd, OwnedFd};
use wgpu::hal::api::Vulkan;
use wgpu::hal::vulkan;

/// Kind of the exported handle.
const HANDLE: vk::ExternalSemaphoreHandleTypeFlags =
    vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

/// A timeline semaphore of a device.
#[derive(Debug)]
pub struct ExternalSemaphore {
    raw: vk::Semaphore,
    gpu: Gpu,
}

impl Gpu {
    /// Creates a semaphore with the value 0, and a handle of it, which an import takes ownership of.
    ///
    /// # Errors
    /// A device that cannot export semaphores, or that was opened without
    /// [`crate::DeviceRequirements::external_memory`].
    pub fn external_semaphore(&self) -> Result<(ExternalSemaphore, OwnedFd)> {
        // SAFETY: the device is not destroyed while the guard is alive.
        let device = unsafe { self.device().as_hal::<Vulkan>() };
        let able = |device: &vulkan::Device| {
            let extensions = device.enabled_device_extensions();
            extensions.contains(&khr::external_semaphore_fd::NAME)
        };
        let device = device.filter(|device| able(device)).ok_or_else(|| {
            Error::unsupported(format!("{} does not share semaphores", self.device_name()))
                .hint("use Vulkan on Linux, with a driver that has VK_KHR_external_semaphore_fd")
        })?;
        let refused = |what: &str, result: vk::Result| {
            Error::unsupported(format!("cannot share a semaphore: {what}: {result}"))
        };
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(HANDLE);
        let info = vk::SemaphoreCreateInfo::default()
            .push_next(&mut kind)
            .push_next(&mut export);
        // SAFETY: the structures are valid, and the device is alive.
        let raw = unsafe { device.raw_device().create_semaphore(&info, None) }
            .map_err(|e| refused("creation", e))?;
        let semaphore = ExternalSemaphore {
            raw,
            gpu: self.clone(),
        };
        let instance = device.shared_instance().raw_instance();
        let functions = khr::external_semaphore_fd::Device::new(instance, device.raw_device());
        let get = vk::SemaphoreGetFdInfoKHR::default()
            .semaphore(raw)
            .handle_type(HANDLE);
        // SAFETY: the semaphore was created for export.
        let handle =
            unsafe { functions.get_semaphore_fd(&get) }.map_err(|e| refused("export", e))?;
        // SAFETY: a new descriptor, which belongs to this process alone.
        Ok((semaphore, unsafe { OwnedFd::from_raw_fd(handle) }))
    }
}

impl ExternalSemaphore {
    /// Makes all work that is submitted from now on follow the signal of this value.
    pub fn wait(&self, value: u64) {
        self.with_queue(|queue| {
            queue.add_wait_semaphore(self.raw, Some(value), vk::PipelineStageFlags::ALL_COMMANDS);
        });
    }

    /// Makes the next submission signal this value, larger than all before, when it and all earlier ones are done. (An
    /// empty submission for the signal alone would cost the host more time.)
    pub fn signal_with_next(&self, value: u64) {
        self.with_queue(|queue| queue.add_signal_semaphore(self.raw, Some(value)));
    }

    fn with_queue(&self, act: impl FnOnce(&vulkan::Queue)) {
        // SAFETY: the queue is not destroyed while the guard is alive.
        if let Some(queue) = unsafe { self.gpu.queue().as_hal::<Vulkan>() } {
            act(&queue);
        }
    }
}

impl Drop for ExternalSemaphore {
    fn drop(&mut self) {
        // A device that is lost has no work that uses it.
        let _ = self.gpu.wait();
        // SAFETY: the device is not destroyed while the guard is alive.
        if let Some(device) = unsafe { self.gpu.device().as_hal::<Vulkan>() } {
            // SAFETY: no work uses it.
            unsafe { device.raw_device().destroy_semaphore(self.raw, None) };
        }
    }
}

/// Opens a device that exports semaphores. Returns `None` if the adapter does not have them; it is then opened without.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
) -> Option<Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError>> {
    let features = descriptor.required_features;
    if !features.contains(wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD) {
        return None;
    }
    let opened = {
        // SAFETY: the adapter is not destroyed while the guard is alive.
        let raw = unsafe { adapter.as_hal::<Vulkan>() }?;
        let extension = khr::external_semaphore_fd::NAME;
        if !raw
            .physical_device_capabilities()
            .supports_extension(extension)
        {
            return None;
        }
        // SAFETY: the callback adds an extension that the device has. A failure comes again, and is reported, when the
        // device is opened without.
        unsafe {
            raw.open_with_callback(
                features,
                &descriptor.required_limits,
                &descriptor.memory_hints,
                Some(Box::new(|arguments| arguments.extensions.push(extension))),
            )
        }
        .ok()?
    };
    // SAFETY: the device is new, of this adapter, and has these features and limits.
    Some(unsafe { adapter.create_device_from_hal::<Vulkan>(opened, descriptor) })
}
