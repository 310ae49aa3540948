//! The GPU engine: every stage in WGSL, on any device that wgpu drives.
//!
//! - `shaders/`: one WGSL file a stage, what they share under `shaders/shared/`.
//! - [`passes`]: what a stage declares, and what follows from it: buffers, dispatch entries, costs.
//! - [`stages`]: one file a stage: its declaration, and what kernels run over what.
//! - [`layout`]: what host and shaders share.
//! - [`nearest`]: the nearest of many centres, for palettes of splat files; no stage of the engine.
//! - [`browser`]: a render as a list of dispatches, for pages that play it with WebGPU.
//!
//! Nothing waits inside a step, nothing adds floats atomically, and two runs with one seed on one
//! device give the same bits.

pub mod browser;
mod buffers;
mod context;
mod depths;
mod engine;
mod growing;
pub mod layout;
mod messages;
pub mod nearest;
mod params;
pub mod passes;
mod photos;
mod poses;
pub mod precision;
mod recorder;
mod recordings;
mod ring;
mod room;
pub mod stages;
mod timing;
mod trace;
mod views;

pub use buffers::Buffers;
pub use context::Context;
pub use engine::{GpuEngine, GpuEngineOptions, GradientBuffers};
pub use nearest::Nearest;
pub use passes::Room;
pub use precision::{Precision, Storage};
pub use recorder::Recorder;
pub use room::{bytes_per_gaussian, bytes_per_instance, bytes_per_visible};
pub use timing::StepTiming;
