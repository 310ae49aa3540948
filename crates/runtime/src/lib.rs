//! A small GPU runtime on wgpu for compute programs on Vulkan, Metal and DX12: buffers, WGSL composed from shader
//! includes, kernels whose bindings have names, command lists that are recorded once and replayed, and the GPU's own
//! clock. Deterministic: no function of the runtime depends on the order in which workgroups run.
//!
//! ```
//! use dapple_runtime::{Choice, CommandList, Gpu, GpuOptions, Groups, Kernel};
//! # fn main() -> dapple_base::Result<()> {
//! # if dapple_runtime::adapters().is_empty() { return Ok(()); }
//! let gpu = Gpu::open(&GpuOptions { choice: Choice::Index(0), ..GpuOptions::default() })?;
//! let values = gpu.upload("values", &[1.0f32, 2.0, 3.0])?;
//! let square = "
//!     @group(0) @binding(0) var<storage, read_write> values: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn square(@builtin(global_invocation_id) id: vec3u) {
//!         if id.x < arrayLength(&values) { values[id.x] *= values[id.x]; }
//!     }";
//! let kernel = Kernel::from_wgsl(&gpu, "square", square, "square")?;
//! let mut recording = CommandList::new();
//! recording.dispatch(kernel.bind(&gpu, &[("values", &values)])?, Groups::flat(1));
//! recording.submit(&gpu, &[]);
//! recording.submit(&gpu, &[]);
//! assert_eq!(gpu.read::<f32>(&values, 3)?, [1.0, 16.0, 81.0]);
//! # Ok(()) }
//! ```
//!
//! - [`Gpu`]: an open device; [`adapters`] lists the adapters.
//! - [`ShaderSet`]: named shader includes in WGSL, `#import`, `#if`, constants.
//! - [`Kernel`]: a compute pipeline made from a composed shader; buffers are bound by name.
//! - [`CommandList`]: a command list of dispatches, copies, clears, uploads and downloads, replayed each step with
//!   fresh immediates and parameters ([`Values`]).
//! - [`Buffer`] and [`Slice`]: typed buffers of the pool and ranges of them, which bindings keep alive.
//! - [`Pool`]: reuse of buffers; [`Readback`]: a copy to the host, as a future; [`Upload`]: a copy from the host.
//! - [`DeviceRequirements`] and [`EnabledFeatures`]: requested and enabled features; [`DeviceClass`]: the limits of
//!   browsers.
//! - [`GpuClock`]: durations of the spans of a command list; [`Counters`]: counts of the host's calls.
//! - [`primitives`]: prefix sums and a stable radix sort.
//! - [`join`]: runs kernels that bind more buffers than browsers permit, without a rewrite of their source.
//! - [`ceilings`]: measured ceilings of a device.
//! - [`translate`]: translates a shader to the languages of Vulkan, Metal and DX12.
//!
//! No driver failure is a panic: out of memory, a lost device and refused shaders are errors.

mod adapter;
mod buffer;
mod cache;
pub mod ceilings;
mod clock;
mod command_list;
mod commands;
mod compile_lock;
mod counters;
mod device_requirements;
#[cfg(target_os = "linux")]
mod external;
#[cfg(target_os = "linux")]
mod external_semaphore;
mod gpu;
mod hints;
mod host_memory;
pub mod join;
mod kernel;
mod limits;
mod link;
mod parameters;
mod peer;
mod pool;
pub mod primitives;
mod readback;
mod shader;
mod submission_batch;
mod transfer;
mod translate;
mod upload;

pub use adapter::{AdapterReport, Choice, adapters};
pub use buffer::{Buffer, ByteSlice, Slice};
pub use cache::folder as cache_folder;
pub use clock::{Calibration, GpuClock, SpanTime, Timing};
pub use command_list::{CommandList, Detail, Dispatch, Groups, Routine, Work};
pub use commands::{Download, Replay};
pub use compile_lock::with_drivers_alone;
pub use counters::Counters;
pub use device_requirements::{DeviceClass, DeviceRequirements, EnabledFeatures, FeatureRequest};
#[cfg(target_os = "linux")]
pub use external::ExternalBuffer;
#[cfg(target_os = "linux")]
pub use external_semaphore::ExternalSemaphore;
pub use gpu::{Gpu, GpuOptions, Overrides};
pub use hints::Hints;
pub use host_memory::{MappedPart, zeroed_host_memory};
pub use kernel::{Bound, Kernel, KernelBinding, bindings_of};
pub use limits::{GpuLimits, measure_limits};
pub use parameters::{BLOCKS, PARAMETER_BYTES, Values, without_immediates};
pub use peer::{PeerBuffer, PeerCopy, copy_through_host};
pub use pool::{Pool, PoolStats, Pooled};
pub use readback::Readback;
pub use shader::{Defines, ShaderSet};
pub use translate::{
    EntryNeeds, ShaderFeatures, Translated, translate, translate_cooperative, translate_with,
};
pub use upload::Upload;
pub use wgpu;
