//! The GPU engine: every stage in WGSL, on any device that wgpu supports.
//!
//! - `shaders/`: one WGSL file for each stage, shader includes under `shaders/shared/`.
//! - [`layout`]: types and constants shared by host and shaders.
//! - [`shared_struct`]: structs of host and shaders, declared once.
//! - [`passes`]: types of the declarations of stages.
//! - [`stages`]: one file for each stage: its declaration, and the dispatches of its kernels.
//! - [`features`]: one file for each feature: its passes and what it holds between steps.
//! - [`plans`]: the lists of passes. [`catalogue`]: what follows from the lists: shaders, buffers,
//!   dispatch entries, costs.
//! - [`nearest`]: the nearest of many centres, for palettes of splat files; not a stage of the
//!   engine.
//! - [`browser`]: a render as a list of dispatches, for pages that run it with WebGPU.
//!
//! Nothing waits inside a step, and nothing adds floats atomically. Two runs with one seed on one
//! device give the same bits.

pub mod browser;
mod buffers;
pub mod catalogue;
mod context;
mod engine;
pub mod features;
mod growing;
pub mod layout;
mod memory_use;
mod messages;
pub mod nearest;
mod params;
pub mod passes;
mod photos;
pub mod plans;
pub mod precision;
mod recorder;
mod recordings;
mod ring;
pub mod shared_struct;
pub mod stages;
mod timing;
mod trace;
mod views;

pub use buffers::Buffers;
pub use context::Context;
pub use engine::{GpuEngine, GpuEngineOptions};
pub use memory_use::{bytes_per_gaussian, bytes_per_instance, bytes_per_visible};
pub use nearest::Nearest;
pub use passes::Capacity;
pub use precision::{Precision, Storage};
pub use recorder::Recorder;
pub use timing::StepTiming;
