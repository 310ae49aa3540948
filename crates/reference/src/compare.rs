//! Comparison of an engine with the reference: one number per tensor.
//!
//! The number is the relative L2 distance `|actual - expected| / |expected|`. Engines in `f32` must
//! stay below [`TOLERANCE`]. A relative distance to zero is undefined. If the reference is zero,
//! the engine must be zero too, within [`ZERO`], and the distance is 0 or infinite.

use crate::oracle::Image;
use dapple_engine::{Gradients, Rendered};

/// Maximum distance of an engine in `f32`, for images and for each gradient tensor.
pub const TOLERANCE: f64 = 1e-4;

/// L2 norm at or below which a tensor counts as zero.
pub const ZERO: f64 = 1e-9;

/// Returns `|actual - expected| / |expected|`. Infinite if a value is non-finite, if lengths
/// differ, or if `expected` is [`ZERO`] and `actual` is not.
pub fn relative_l2(actual: &[f64], expected: &[f64]) -> f64 {
    if actual.len() != expected.len() {
        return f64::INFINITY;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let expected_norm = norm(&mut expected.iter().copied());
    let distance = norm(&mut actual.iter().zip(expected).map(|(a, e)| a - e));
    if !distance.is_finite() || !expected_norm.is_finite() {
        f64::INFINITY
    } else if expected_norm > ZERO {
        distance / expected_norm
    } else if distance <= ZERO {
        0.0
    } else {
        f64::INFINITY
    }
}

/// Returns the distances of `"rgb"` and `"alpha"`; infinite for images of another size.
pub fn compare_images(actual: &Rendered, expected: &Image) -> Vec<(&'static str, f64)> {
    let widen = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let same_size = (actual.width, actual.height) == (expected.width, expected.height);
    let distance = |actual: &[f32], expected: &[f64]| {
        if same_size {
            relative_l2(&widen(actual), expected)
        } else {
            f64::INFINITY
        }
    };
    vec![
        ("rgb", distance(&actual.rgb, &expected.rgb)),
        ("alpha", distance(&actual.alpha, &expected.alpha)),
    ]
}

/// Returns the distance of the blended depths; infinite for images of another size or without
/// depths.
pub fn compare_depths(actual: &Rendered, expected: &Image) -> f64 {
    let blended = actual.depth.as_ref().map_or(&[][..], |d| &d.blended);
    let widened: Vec<f64> = blended.iter().map(|&v| f64::from(v)).collect();
    relative_l2(&widened, &expected.depth)
}

/// Returns the distance of every tensor of [`Gradients::tensors`], by name. [`compare_pose`]
/// compares the pose, because not every engine differentiates it.
pub fn compare_gradients(
    actual: &Gradients<f32>,
    expected: &Gradients<f64>,
) -> Vec<(&'static str, f64)> {
    actual
        .tensors()
        .into_iter()
        .zip(expected.tensors())
        .map(|((name, actual), (_, expected))| (name, relative_l2(&actual, &expected)))
        .collect()
}

/// Returns the distance of the pose's gradient.
pub fn compare_pose(actual: &Gradients<f32>, expected: &Gradients<f64>) -> f64 {
    relative_l2(&actual.pose, &expected.pose)
}

/// Returns the indices of Gaussians in `absent` with a gradient. Gradients of absent Gaussians must
/// be exactly zero, and a norm over all Gaussians would not detect a small one.
pub fn stray_gradients(actual: &Gradients<f32>, absent: &[usize]) -> Vec<usize> {
    let n = actual.means.len().max(1);
    let tensors = actual.tensors();
    let is_stray = |&i: &usize| {
        tensors.iter().any(|(_, values)| {
            let width = values.len() / n;
            values[i * width..(i + 1) * width].iter().any(|&v| v != 0.0)
        })
    };
    absent.iter().copied().filter(is_stray).collect()
}
