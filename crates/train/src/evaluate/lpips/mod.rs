//! LPIPS: distance of two images in the features of a network that was trained to classify objects (Zhang et al. 2018,
//! arXiv:1801.03924, eq. 1, version 0.1 of its weights). 0 = equal; larger is worse.
//!
//! 1. Values 0..1 become -1..1, then zero mean and unit deviation per channel, with the constants of the paper's code.
//! 2. Both images go through the convolutions of AlexNet or VGG-16 ([`network`]); the distance uses five layers.
//! 3. In each layer the features of a pixel are scaled to length 1, their differences squared, weighted by the layer's
//!    linear weights and summed; the mean over pixels, summed over layers, is the distance.
//! 4. Masked pixels are taken from the target in both images, and features centred there do not count.
//!
//! Weights come from a file that the user names; none are part of this program. Work is split by rows and pixels, and
//! added in order: the result does not depend on the number of threads.
//!
//! [`Lpips::distance`] computes on the CPU and [`DeviceLpips`] by tensors on a GPU. [`LpipsCrops`] and
//! [`Lpips::crop_routine`] compute the derivative for training. [`Measure`] selects the GPU of an engine, or the CPU if there is no GPU or the image does
//! not fit it.

mod backbone;
mod crops;
mod device;
mod measure;
mod network;
mod weights;

use super::pixels::counts;
use dapple_scene::Result;
use network::{Features, Layer};
use rayon::prelude::*;

pub use backbone::{Backbone, Convolution};
pub use crops::LpipsCrops;
pub use device::DeviceLpips;
pub(crate) use measure::Measure;
pub use network::Window;

/// Mean and deviation of red, green and blue, for values in -1..1: those of ImageNet.
const MEAN: [f32; 3] = [-0.030, -0.088, -0.188];
const DEVIATION: [f32; 3] = [0.458, 0.448, 0.450];

/// Added to the length that features are divided by.
const EPSILON: f32 = 1e-10;

/// The network with its weights.
#[derive(Debug, Clone)]
pub struct Lpips {
    backbone: Backbone,
    layers: Vec<Layer>,
    /// Weights of the features' differences, for each layer that the distance uses.
    linear: Vec<Vec<f32>>,
}

impl Lpips {
    /// Returns the network of these weights.
    pub fn backbone(&self) -> Backbone {
        self.backbone
    }

    /// Returns the distance of two images, `[height, width, 3]` in 0..1, where `mask` (`[height, width]`, 0 = ignore)
    /// shows them.
    ///
    /// # Errors
    /// Images too small for the network's strides.
    pub fn distance(
        &self,
        image: &[f32],
        target: &[f32],
        width: usize,
        height: usize,
        mask: Option<&[u8]>,
    ) -> Result<f64> {
        self.backbone.check_size(width, height)?;
        let mut a = input(image, target, width, height, mask);
        let mut b = input(target, target, width, height, None);
        let mut linear = self.linear.iter();
        let mut total = 0.0;
        for layer in &self.layers {
            (a, b) = (layer.apply(&a), layer.apply(&b));
            if layer.is_looked_at
                && let Some(weights) = linear.next()
            {
                total += difference(&a, &b, weights, (width, height), mask);
            }
        }
        Ok(total)
    }
}

/// Steps 1 and 4.
fn input(
    image: &[f32],
    target: &[f32],
    width: usize,
    height: usize,
    mask: Option<&[u8]>,
) -> Features {
    let shown = |pixel: usize| mask.is_none_or(|mask| counts(mask[pixel]));
    let value = |i: usize| {
        let value = if shown(i / 3) { image[i] } else { target[i] };
        (2.0 * value - 1.0 - MEAN[i % 3]) / DEVIATION[i % 3]
    };
    Features {
        width,
        height,
        channels: 3,
        values: (0..width * height * 3).into_par_iter().map(value).collect(),
    }
}

/// Returns true if a mask of an image shows the pixel in the middle of one of a layer's places (column, row). Sizes are
/// width and height.
fn is_shown(
    (x, y): (usize, usize),
    (columns, rows): (usize, usize),
    (width, height): (usize, usize),
    mask: Option<&[u8]>,
) -> bool {
    let centre =
        |i: usize, of: usize, pixels: usize| ((2 * i + 1) * pixels / (2 * of)).min(pixels - 1);
    let pixel = centre(y, rows, height) * width + centre(x, columns, width);
    mask.is_none_or(|mask| counts(mask[pixel]))
}

/// Step 3 for one layer.
fn difference(
    a: &Features,
    b: &Features,
    weights: &[f32],
    image: (usize, usize),
    mask: Option<&[u8]>,
) -> f64 {
    let shown = |x: usize, y: usize| is_shown((x, y), (a.width, a.height), image, mask);
    let row_values = a.width * a.channels;
    let rows: Vec<([f64; 2], usize)> = a
        .values
        .par_chunks(row_values)
        .zip(b.values.par_chunks(row_values))
        .enumerate()
        .map(|(y, (a_row, b_row))| {
            let pixels = a_row
                .chunks_exact(a.channels)
                .zip(b_row.chunks_exact(a.channels));
            let (mut sums, mut count) = ([0.0; 2], 0);
            for (x, (a, b)) in pixels.enumerate() {
                let distance = of_pixel(a, b, weights);
                sums[0] += distance;
                if shown(x, y) {
                    sums[1] += distance;
                    count += 1;
                }
            }
            (sums, count)
        })
        .collect();
    let (mut sums, mut count) = ([0.0; 2], 0);
    for (row, counted) in rows {
        sums[0] += row[0];
        sums[1] += row[1];
        count += counted;
    }
    if count > 0 {
        sums[1] / count as f64
    } else {
        // So coarse that every place is centred in a hole.
        sums[0] / (a.width * a.height) as f64
    }
}

fn of_pixel(a: &[f32], b: &[f32], weights: &[f32]) -> f64 {
    let length = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt() + EPSILON;
    let (in_a, in_b) = (1.0 / length(a), 1.0 / length(b));
    let mut sum = 0.0f32;
    for ((a, b), weight) in a.iter().zip(b).zip(weights) {
        let difference = a * in_a - b * in_b;
        sum += weight * difference * difference;
    }
    sum.into()
}
