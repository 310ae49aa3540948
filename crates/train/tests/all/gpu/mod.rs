//! A GPU for tests that need one.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_runtime::{Gpu, GpuOptions};
use dapple_scene::lacking;

/// The device that tests take.
pub fn open() -> Option<Gpu> {
    let options = GpuOptions {
        choice: lacking::test_gpu().parse().unwrap(),
        validate: true,
        ..GpuOptions::default()
    };
    match Gpu::open(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            lacking::skipped("gpu", &error.to_string());
            None
        }
    }
}
