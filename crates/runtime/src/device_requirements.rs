//! Device requirements of a program ([`DeviceRequirements`]), enabled features ([`EnabledFeatures`]), and the class of
//! limits that the device is restricted to ([`DeviceClass`]).

use crate::adapter::{IMMEDIATE_BYTES, STORAGE_BUFFERS};
use dapple_base::{Error, Result};

/// Request for a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FeatureRequest {
    /// The device is opened without the feature.
    No,
    /// The feature is used if the device has it.
    #[default]
    IfThere,
    /// A device without the feature does not open.
    Must,
}

/// Features that a program requests; [`EnabledFeatures`] contains the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRequirements {
    /// 16-bit floats in shaders (`enable f16`).
    pub f16: FeatureRequest,
    /// Operations across a subgroup.
    pub subgroups: FeatureRequest,
    /// Times on the device's clock.
    pub timestamps: FeatureRequest,
    /// Products of small matrices across a subgroup. wgpu calls them experimental: a shader that uses them is checked
    /// less. Users compare its output with the output of other shaders on the same device.
    pub cooperative_matrices: FeatureRequest,
    /// Buffers whose memory other interfaces import (`Gpu::external_buffer`), and semaphores where the driver has them
    /// (`Gpu::external_semaphore`). Not requested by default.
    pub external_memory: FeatureRequest,
}

impl Default for DeviceRequirements {
    fn default() -> Self {
        let if_there = FeatureRequest::IfThere;
        Self {
            f16: if_there,
            subgroups: if_there,
            timestamps: if_there,
            cooperative_matrices: if_there,
            external_memory: FeatureRequest::No,
        }
    }
}

/// Limits that a device is opened with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceClass {
    /// Immediates, 16 storage buffers per kernel, and the device's maximum of memory.
    #[default]
    Native,
    /// Limits that every browser supports: WebGPU's default limits (8 storage buffers per kernel, 16 KiB of workgroup
    /// memory, 128 MiB per binding, 256 MiB per buffer) and none of its features. Immediates travel through the ring
    /// buffer of parameters. Any device can be restricted to these limits, to test that a program runs in a browser.
    WebGpuDefault,
}

/// Enabled features and limits of an open device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledFeatures {
    /// 16-bit floats in shaders.
    pub f16: bool,
    /// Invocations in a subgroup, if all subgroups have one size.
    pub subgroup_size: Option<u32>,
    /// Times on the device's clock.
    pub timestamps: bool,
    /// Products across a subgroup of 16 by 16 matrices of 16-bit floats, with 32-bit sums.
    pub cooperative_matrices: bool,
    /// Bytes of immediates; with 0, `var<immediate>` is a uniform block of the ring buffer of parameters.
    pub immediate_bytes: u32,
    /// Storage buffers that one kernel may bind.
    pub storage_buffers: u32,
    /// Bytes that a workgroup may share.
    pub workgroup_bytes: u32,
    /// Most bytes in one storage binding.
    pub binding_bytes: u64,
    /// Most bytes in one buffer.
    pub buffer_bytes: u64,
}

impl EnabledFeatures {
    pub(crate) fn new(
        features: wgpu::Features,
        limits: &wgpu::Limits,
        subgroup_size: Option<u32>,
        multiplies_halves: bool,
    ) -> Self {
        let has = |feature| features.contains(feature);
        let immediates = has(wgpu::Features::IMMEDIATES);
        Self {
            f16: has(wgpu::Features::SHADER_F16),
            subgroup_size,
            timestamps: has(wgpu::Features::TIMESTAMP_QUERY),
            cooperative_matrices: multiplies_halves
                && has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
                && has(wgpu::Features::SHADER_F16),
            immediate_bytes: if immediates {
                limits.max_immediate_size
            } else {
                0
            },
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            binding_bytes: limits.max_storage_buffer_binding_size,
            buffer_bytes: limits.max_buffer_size,
        }
    }
}

impl DeviceClass {
    /// Returns the features that every device of this class has.
    pub(crate) fn features(self) -> wgpu::Features {
        match self {
            Self::Native => wgpu::Features::IMMEDIATES,
            Self::WebGpuDefault => wgpu::Features::empty(),
        }
    }

    /// Returns the limits that a device is opened with: those that kernels need, and the device's maximum of memory.
    pub(crate) fn limits(self, has: &wgpu::Limits) -> wgpu::Limits {
        match self {
            Self::Native => wgpu::Limits {
                max_immediate_size: IMMEDIATE_BYTES,
                max_storage_buffers_per_shader_stage: has
                    .max_storage_buffers_per_shader_stage
                    .min(STORAGE_BUFFERS),
                max_storage_buffer_binding_size: has.max_storage_buffer_binding_size,
                max_buffer_size: has.max_buffer_size,
                max_compute_workgroup_storage_size: has.max_compute_workgroup_storage_size,
                max_compute_invocations_per_workgroup: has.max_compute_invocations_per_workgroup,
                max_compute_workgroup_size_x: has.max_compute_workgroup_size_x,
                ..wgpu::Limits::default()
            },
            Self::WebGpuDefault => wgpu::Limits::default(),
        }
    }
}

impl DeviceRequirements {
    /// Lists each feature, its name in wgpu, and its name in the error if it is missing.
    fn list(&self) -> [(FeatureRequest, wgpu::Features, &'static str); 5] {
        [
            (
                self.f16,
                wgpu::Features::SHADER_F16,
                "16-bit floats in shaders",
            ),
            (
                self.subgroups,
                wgpu::Features::SUBGROUP.union(wgpu::Features::SUBGROUP_BARRIER),
                "subgroup operations",
            ),
            (self.timestamps, TIMESTAMPS, "timestamps"),
            (
                self.cooperative_matrices,
                wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
                "cooperative matrices",
            ),
            (
                self.external_memory,
                wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD,
                "memory that other interfaces import",
            ),
        ]
    }

    /// Returns the features to request on adapter `name`, which has the features `has`.
    ///
    /// # Errors
    /// The adapter lacks a required feature.
    pub(crate) fn features(&self, has: wgpu::Features, name: &str) -> Result<wgpu::Features> {
        let mut asked = wgpu::Features::empty();
        for (want, feature, what) in self.list() {
            match want {
                FeatureRequest::No => {}
                FeatureRequest::IfThere => asked |= has & feature,
                FeatureRequest::Must if has.contains(feature) => asked |= feature,
                FeatureRequest::Must => {
                    let message = format!("{name} has no {what}, which this program needs");
                    return Err(Error::unsupported(message).hint("choose another device"));
                }
            }
        }
        Ok(asked)
    }
}

/// Features that [`GpuClock`](crate::GpuClock) needs.
pub(crate) const TIMESTAMPS: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
