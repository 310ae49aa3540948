//! A GPU for tests that need one.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_runtime::{Choice, Gpu, GpuOptions};

/// `DAPPLE_TEST_GPU` names a device; otherwise the first there is.
pub fn open() -> Option<Gpu> {
    let choice = match std::env::var("DAPPLE_TEST_GPU") {
        Ok(name) => name.parse().unwrap(),
        Err(_) => Choice::Index(0),
    };
    let options = GpuOptions {
        choice,
        validate: true,
        ..GpuOptions::default()
    };
    match Gpu::open(&options) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            dapple_scene::lacking::skipped("gpu", &error.to_string());
            None
        }
    }
}
