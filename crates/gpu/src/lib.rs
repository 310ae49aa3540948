//! The GPU engine: every stage in WGSL, on any device that wgpu drives.
//!
//! - `shaders/`: one WGSL file a stage, what they share under `shaders/shared/`.
//! - [`stages`]: one file a stage, which says what kernels run over what.
//! - [`layout`]: what host and shaders share.
//!
//! Nothing waits inside a step, nothing adds floats atomically, and two runs with one seed on one
//! device give the same bits.

mod context;
mod depths;
mod engine;
mod frame;
mod growing;
pub mod layout;
mod messages;
mod optics;
mod params;
mod photos;
mod poses;
pub mod precision;
mod recordings;
mod ring;
pub mod stages;
mod timing;
mod trace;
mod views;

pub use context::{Buffers, Context};
pub use engine::{GpuEngine, GpuEngineOptions};
pub use frame::{Room, bytes_per_gaussian, bytes_per_instance, bytes_per_visible};
pub use optics::Optics;
pub use precision::{Precision, Storage};
pub use timing::StepTiming;
