//! Support for the tests of this crate: devices, numbers, comparisons.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

pub mod gradients;

use dapple_base::test_requirements;
use dapple_runtime::{Gpu, GpuOptions};
use dapple_tensor::{Context, Plan, PlanOptions, Tensor};

/// Opens the device of the tests.
pub fn gpu() -> Option<Gpu> {
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

/// Returns the CPU, and a GPU if one exists.
pub fn contexts() -> Vec<Context> {
    let gpu = gpu().map(|gpu| Context::gpu(&gpu));
    std::iter::once(Context::cpu()).chain(gpu).collect()
}

/// Returns numbers from -1 to 1, equal for equal seeds.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Reads with and without fusion.
pub fn both(tensor: &Tensor) -> [Vec<f32>; 2] {
    [true, false].map(|fuse| {
        let options = PlanOptions {
            fuse,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&[tensor], &options).unwrap();
        plan.run().unwrap();
        plan.read(0).unwrap()
    })
}

/// Returns the relative L2 error; places where both are NaN, or equal, count as right.
pub fn error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let mut off = 0.0;
    let mut size = 0.0;
    for (found, expected) in found.iter().zip(expected) {
        let found = f64::from(*found);
        if found == *expected || (found.is_nan() && expected.is_nan()) {
            size += if expected.is_finite() {
                expected * expected
            } else {
                0.0
            };
            continue;
        }
        off += (found - expected) * (found - expected);
        size += expected * expected;
    }
    if off == 0.0 {
        0.0
    } else {
        (off / size.max(1e-30)).sqrt()
    }
}

#[track_caller]
pub fn close(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    let error = error(found, expected);
    assert!(
        error <= tolerance,
        "{what}: off by {error:e}: {:?} and {:?}",
        &found[..found.len().min(8)],
        &expected[..expected.len().min(8)]
    );
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Returns the bits of each value.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
