//! A GPU for tests that need one.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_runtime::{Gpu, GpuOptions};
use dapple_scene::test_requirements;

/// The device that tests take.
pub fn open() -> Option<Gpu> {
    let options = GpuOptions {
        choice: test_requirements::test_gpu().parse().unwrap(),
        validate: true,
        ..GpuOptions::default()
    };
    match Gpu::open(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            test_requirements::skipped("gpu", &error.to_string());
            None
        }
    }
}
