//! The integration tests of this crate, as one program: each further program would cost mostly its link time.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

mod align;
mod batches;
mod checkpoint;
mod config;
mod depth;
mod evaluate;
mod extension;
mod fake;
mod focus;
mod gpu;
mod hooks;
mod init;
mod lpips;
mod lpips_device;
mod lpips_weights;
mod own_strategy;
mod queues;
mod real_capture;
mod rows;
mod schedule;
mod strategy;
mod surface;
mod time_budget;
mod trainer;
mod training;
