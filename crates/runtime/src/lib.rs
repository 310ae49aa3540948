//! A small GPU runtime on wgpu for programs that compute: choosing a device, buffers, WGSL composed
//! from pieces, kernels whose bindings have names, recordings that are built once and replayed, and
//! the GPU's own clock. All of it goes through wgpu: Vulkan, Metal, DX12.
//!
//! - [`Gpu`]: an open device; [`adapters`] lists what there is.
//! - [`ShaderSet`]: named WGSL pieces, `#import`, `#if`, constants.
//! - [`Kernel`]: a compute pipeline made from a composed shader; buffers are bound by name.
//! - [`Recording`]: a list of dispatches, replayed each step with fresh immediates.
//! - [`Pool`]: buffers used again; [`Readback`]: values on their way to the host; [`Upload`]: from it.
//! - [`GpuClock`]: how long the spans of a recording took; [`Counters`]: what the host asked for.
//! - [`ceilings`]: what a device does at most, measured.
//! - [`translate`]: what Vulkan, Metal and DX12 get from a shader.
//!
//! Nothing a driver does is a panic: out of memory, a lost device and refused shaders are errors.

mod adapter;
mod cache;
pub mod ceilings;
mod clock;
mod counters;
mod gpu;
mod kernel;
mod limits;
mod link;
mod pool;
mod readback;
mod recording;
mod shader;
mod translate;
mod upload;

pub use adapter::{AdapterReport, Choice, adapters};
pub use cache::folder as cache_folder;
pub use clock::{Calibration, GpuClock, SpanTime, Timing};
pub use counters::Counters;
pub use gpu::{Gpu, GpuOptions, Hints, Overrides};
pub use kernel::{Bound, Kernel};
pub use limits::{GpuLimits, measure_limits};
pub use pool::{Pool, PoolStats, Pooled};
pub use readback::Readback;
pub use recording::{Detail, Dispatch, Groups, Recording, Work};
pub use shader::{Defines, ShaderSet};
pub use translate::{EntryNeeds, Grants, Translated, translate, translate_with};
pub use upload::Upload;
pub use wgpu;
