//! Comparison of a device's units for cooperative matrices with known numbers. wgpu checks shaders that use them less,
//! so a plan uses them only after the comparison.

use super::cooperative::{LANES, MEMORY};
use crate::context::{Context, Device};
use crate::graph::tensor::DType;
use crate::graph::windows::Windows;
use crate::plan::{Plan, PlanOptions};
use dapple_base::Result;
use half::f16;

impl Context {
    /// Returns true if products of 16-bit matrices are computed by cooperative matrices. The device must have units of
    /// the supported kind, and their output must have matched known numbers in the first call.
    ///
    /// # Errors
    /// A lost device.
    pub fn cooperates(&self) -> Result<bool> {
        if let Some(known) = self.cooperation().get() {
            return Ok(*known);
        }
        let found = self.may_cooperate() && check(self)?;
        Ok(*self.cooperation().get_or_init(|| found))
    }

    /// Returns true if the device has the units; their output is not checked.
    pub(crate) fn may_cooperate(&self) -> bool {
        let Device::Gpu(gpu) = self.device() else {
            return false;
        };
        let granted = gpu.granted();
        granted.cooperative_matrices
            && granted.subgroup_size == Some(LANES)
            && granted.workgroup_bytes as usize >= MEMORY
    }
}

/// Returns true if this device's units multiply correctly: small whole numbers, whose products are exact, by both
/// tiles, with plain and transposed matrices.
///
/// # Errors
/// A lost device.
fn check(context: &Context) -> Result<bool> {
    for (m, k, n, is_transposed) in [
        (64, 64, 128, false),
        (128, 32, 256, false),
        (128, 96, 256, true),
    ] {
        let (a, b) = (whole(m * k, 1), whole(k * n, 5));
        let of = |shape: &[usize], values: &[f32]| context.tensor_of(DType::F16, shape, values);
        let (x, y) = match is_transposed {
            true => (of(&[k, m], &a).t(), of(&[n, k], &b).t()),
            false => (of(&[m, k], &a), of(&[k, n], &b)),
        };
        let at = |row: usize, column: usize| -> f32 {
            let term = |j: usize| match is_transposed {
                true => a[j * m + row] * b[column * k + j],
                false => a[row * k + j] * b[j * n + column],
            };
            (0..k).map(term).sum()
        };
        let options = PlanOptions::default();
        let found = Plan::compile_cooperative(&[&x.matmul(&y)], &options, 1)?;
        found.run()?;
        let found = found.read(0)?;
        let is_right = |(i, value): (usize, &f32)| *value == at(i / n, i % n);
        if !found.iter().enumerate().all(is_right) {
            return Ok(false);
        }
    }
    convolves(context)
}

/// Computes a convolution of small whole numbers in `f32` directly: the image is `[channels, h, w]`.
fn convolved(image: &[f32], weight: &[f32], [channels, h, w, outputs]: [usize; 4]) -> Vec<f32> {
    let mut all = vec![0.0; outputs * h * w];
    for (place, sum) in all.iter_mut().enumerate() {
        let (output, y, x) = (place / (h * w), place / w % h, place % w);
        for tap in 0..9 {
            let (py, px) = (y + tap / 3, x + tap % 3);
            if (1..=h).contains(&py) && (1..=w).contains(&px) {
                let pixel = |c: usize| image[(c * h + py - 1) * w + px - 1];
                let terms =
                    (0..channels).map(|c| pixel(c) * weight[(output * channels + c) * 9 + tap]);
                *sum += terms.sum::<f32>();
            }
        }
    }
    all
}

/// Returns true if convolutions of whole numbers are right, by tiles of all heights, with windows beyond the last.
fn convolves(context: &Context) -> Result<bool> {
    let [h, w] = [6, 20];
    for (channels, outputs, many) in [(64, 64, 1), (32, 128, 1), (64, 64, usize::MAX)] {
        let image = whole(channels * h * w, 2);
        let weight = whole(outputs * channels * 9, 3);
        let x = context.tensor_of(DType::F16, &[1, channels, h, w], &image);
        let filters = context.tensor_of(DType::F16, &[outputs, channels, 3, 3], &weight);
        let y = x
            .conv2d_by_taps(&filters, Windows::new(1, 1))
            .to(DType::F32);
        let plan = Plan::compile_cooperative(&[&y], &PlanOptions::default(), many)?;
        plan.run()?;
        let expected = convolved(&image, &weight, [channels, h, w, outputs]);
        let round = |value: &f32| f16::from_f32(*value).to_f32();
        if !plan
            .read(0)?
            .iter()
            .eq(expected.iter().map(round).collect::<Vec<_>>().iter())
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whole numbers from -4 to 4.
fn whole(count: usize, salt: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7 + i / 13 + salt) % 9) as f32 - 4.0;
    (0..count).map(value).collect()
}
