//! CPU engine: 3D Gaussian Splatting with rayon over tiles and Gaussians, and SIMD over pixels and
//! Gaussians.
//!
//! [`stages`] has one file per stage, named as in [`dapple_engine::Stage`]. Results depend neither
//! on the number of threads nor on scheduling: tasks depend only on counts, every cell has one
//! writer, and sums have a fixed order.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels index arrays of vectors: iterator adapters are functions of their own, see `simd::each`"
)]

mod antialias;
mod blocks;
mod cameras;
pub mod ceilings;
mod context;
pub mod cost;
mod engine;
mod features;
mod frame;
mod instruments;
mod limits;
mod model;
mod projection;
mod sh;
mod simd;
pub mod stages;
mod step;
pub mod threads;
mod trace;
mod views;

pub use dapple_profile::ceilings::Limits;
pub use engine::{CpuEngine, CpuOptions};
pub use simd::level_name;
