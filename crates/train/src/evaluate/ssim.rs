//! Structural similarity (Wang et al. 2004), at the speed of memory.
//!
//! Only four filtered maps are needed, since SSIM uses the variances as a sum:
//! `E[x]`, `E[y]`, `E[x^2 + y^2]`, `E[xy]`.
//! 1. Masked pixels are taken from the target in both images, as in the loss. Values are shifted by -0.5, which does
//!    not change variances and makes `f32` accurate to 1e-6.
//! 2. For each output row: filter the four maps down the 11 input rows, then along the row.
//! 3. SSIM of each window, summed over the row in `f64`; rows are added in order, so that the result does not depend on
//!    the number of threads.

use super::pixels::{clamped, counts, squared_errors, target_row};
use dapple_engine::constants::{SSIM_C1, SSIM_C2, SSIM_SIGMA, SSIM_WINDOW};
use dapple_scene::Photo;
use rayon::prelude::*;

/// Shift of all values: half of their range.
const SHIFT: f32 = 0.5;

/// Returns the mean SSIM of two images `[height, width, 3]` in 0..1, over windows and channels. Gaussian windows of
/// 11x11, sigma 1.5, are inside the image, and `mask` (`[height, width]`, 0 = ignore) shows their centre pixel. The
/// windows equal those of the loss (`dapple_reference::loss`).
///
/// If there is no such window (an image narrower than 11, a mask that shows only the rim), windows are taken about
/// every shown pixel. They are cut to the shown pixels of the image, and their weights are renormalised.
pub fn ssim(
    image: &[f32],
    target: &[f32],
    width: usize,
    height: usize,
    mask: Option<&[u8]>,
) -> f64 {
    Planes::new(image, target, mask).ssim(width, height, mask)
}

/// The filter's weights along one axis; they sum to 1.
fn window() -> [f32; SSIM_WINDOW] {
    let centre = (SSIM_WINDOW / 2) as f64;
    let raw: [f64; SSIM_WINDOW] = std::array::from_fn(|i| {
        let d = (i as f64 - centre) / SSIM_SIGMA;
        (-0.5 * d * d).exp()
    });
    let sum: f64 = raw.iter().sum();
    raw.map(|v| (v / sum) as f32)
}

/// The two images, shifted; masked pixels are taken from the second.
pub(super) struct Planes {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Planes {
    fn new(image: &[f32], target: &[f32], mask: Option<&[u8]>) -> Self {
        let shift = |values: &[f32]| -> Vec<f32> { values.par_iter().map(|v| v - SHIFT).collect() };
        let (mut x, y) = (shift(image), shift(target));
        if let Some(mask) = mask {
            hide(&mut x, &y, mask);
        }
        Self { x, y }
    }

    /// Converts a render, clamped, and its photo of the same size. Also returns each row's sum of squared errors over
    /// the pixels that the mask shows, and the number of values.
    pub(super) fn of_view(
        rgb: &[f32],
        photo: &Photo,
        background: [f32; 3],
    ) -> (Self, Vec<(f64, u64)>) {
        let (width, mut x, mut y) = (
            photo.width as usize,
            vec![0.0; rgb.len()],
            vec![0.0; rgb.len()],
        );
        let floats = width.max(1) * 3;
        let rows = x.par_chunks_mut(floats).zip(y.par_chunks_mut(floats));
        let rows = rows.zip(rgb.par_chunks(floats)).enumerate();
        let errors = rows.map(|(row, ((x, y), rgb))| {
            target_row(photo, background, row, y);
            for (x, &value) in x.iter_mut().zip(rgb) {
                *x = clamped(value);
            }
            let mask = photo.mask.as_ref().map(|mask| &mask[row * width..]);
            let errors = squared_errors(x, y, mask);
            for (x, y) in x.iter_mut().zip(y.iter_mut()) {
                *x -= SHIFT;
                *y -= SHIFT;
            }
            if let Some(mask) = mask {
                hide(x, y, mask);
            }
            errors
        });
        let errors = errors.collect();
        (Self { x, y }, errors)
    }

    /// See [`ssim()`].
    pub(super) fn ssim(&self, width: usize, height: usize, mask: Option<&[u8]>) -> f64 {
        let weights = window();
        let rows = (height + 1).saturating_sub(SSIM_WINDOW);
        let columns = (width + 1).saturating_sub(SSIM_WINDOW);
        let sums: Vec<(f64, usize)> = (0..if columns > 0 { rows } else { 0 })
            .into_par_iter()
            .map_init(
                || [const { Vec::new() }; 4],
                |filtered, y| {
                    self.filter_down(y, width, &weights, filtered);
                    let centre = (y + SSIM_WINDOW / 2) * width + SSIM_WINDOW / 2;
                    let shown = |x: usize| mask.is_none_or(|mask| counts(mask[centre + x]));
                    sum_row(filtered, columns, &weights, shown)
                },
            )
            .collect();
        let (sum, count) = sums
            .iter()
            .fold((0.0, 0), |(s, n), (row, count)| (s + row, n + count));
        if count > 0 {
            sum / count as f64
        } else {
            cut_windows(self, width, height, mask, &weights)
        }
    }

    /// Filters the four maps over the rows `top..top + 11`; each result is one row of
    /// `width * 3` values.
    fn filter_down(
        &self,
        top: usize,
        width: usize,
        weights: &[f32; SSIM_WINDOW],
        filtered: &mut [Vec<f32>; 4],
    ) {
        let floats = width * 3;
        for row in filtered.iter_mut() {
            row.clear();
            row.resize(floats, 0.0);
        }
        let [mean_x, mean_y, squares, products] = filtered;
        for (i, &weight) in weights.iter().enumerate() {
            let start = (top + i) * floats;
            let (x, y) = (&self.x[start..][..floats], &self.y[start..][..floats]);
            // Slices of one length: the bounds checks go, and the loop becomes vector code.
            let (mean_x, mean_y) = (&mut mean_x[..floats], &mut mean_y[..floats]);
            let (squares, products) = (&mut squares[..floats], &mut products[..floats]);
            for j in 0..floats {
                let (a, b) = (x[j], y[j]);
                let (wa, wb) = (weight * a, weight * b);
                mean_x[j] += wa;
                mean_y[j] += wb;
                squares[j] += wa * a + wb * b;
                products[j] += wa * b;
            }
        }
    }
}

/// Filters along the row and sums the SSIM of the windows that count. Also returns the number of values.
fn sum_row(
    filtered: &[Vec<f32>; 4],
    columns: usize,
    weights: &[f32; SSIM_WINDOW],
    shown: impl Fn(usize) -> bool,
) -> (f64, usize) {
    // Blocks that fit registers and the first-level cache.
    const BLOCK: usize = 48;
    let (mut sum, mut count) = (0.0, 0);
    let floats = columns * 3;
    let mut start = 0;
    while start < floats {
        let length = BLOCK.min(floats - start);
        let mut maps = [[0.0f32; BLOCK]; 4];
        for (map, row) in maps.iter_mut().zip(filtered) {
            for (i, &weight) in weights.iter().enumerate() {
                let from = &row[start + 3 * i..][..length];
                for (value, &v) in map[..length].iter_mut().zip(from) {
                    *value += weight * v;
                }
            }
        }
        let mut values = [0.0f32; BLOCK];
        for (j, value) in values.iter_mut().enumerate() {
            *value = similarity(maps[0][j], maps[1][j], maps[2][j], maps[3][j]);
        }
        for (j, &value) in values[..length].iter().enumerate() {
            if shown((start + j) / 3) {
                sum += f64::from(value);
                count += 1;
            }
        }
        start += length;
    }
    (sum, count)
}

/// Copies masked pixels from the target.
fn hide(x: &mut [f32], y: &[f32], mask: &[u8]) {
    let pixels = x.chunks_exact_mut(3).zip(y.chunks_exact(3)).zip(mask);
    for ((pixel, target), _) in pixels.filter(|(_, mask)| !counts(**mask)) {
        pixel.copy_from_slice(target);
    }
}

/// SSIM of one window from its filtered maps (of shifted values).
#[inline(always)]
fn similarity(mean_x: f32, mean_y: f32, squares: f32, products: f32) -> f32 {
    const C1: f32 = SSIM_C1 as f32;
    const C2: f32 = SSIM_C2 as f32;
    let variances = squares - mean_x * mean_x - mean_y * mean_y;
    let covariance = products - mean_x * mean_y;
    let (x, y) = (mean_x + SHIFT, mean_y + SHIFT);
    let luminance = (2.0 * x * y + C1) / (x * x + y * y + C1);
    luminance * (2.0 * covariance + C2) / (variances + C2)
}

/// SSIM over windows about every shown pixel, cut to the shown pixels: the slow path for small images.
fn cut_windows(
    planes: &Planes,
    width: usize,
    height: usize,
    mask: Option<&[u8]>,
    weights: &[f32; SSIM_WINDOW],
) -> f64 {
    let shown = |i: usize| mask.is_none_or(|mask| counts(mask[i]));
    let reach = SSIM_WINDOW / 2;
    let of_pixel = |pixel: usize| -> f64 {
        let (cx, cy) = (pixel % width, pixel / width);
        let mut maps = [[0.0f32; 4]; 3];
        let mut total = 0.0f32;
        for y in cy.saturating_sub(reach)..(cy + reach + 1).min(height) {
            for x in cx.saturating_sub(reach)..(cx + reach + 1).min(width) {
                let i = y * width + x;
                if !shown(i) {
                    continue;
                }
                let weight = weights[y + reach - cy] * weights[x + reach - cx];
                total += weight;
                for (channel, map) in maps.iter_mut().enumerate() {
                    let (a, b) = (planes.x[3 * i + channel], planes.y[3 * i + channel]);
                    let terms = [a, b, a * a + b * b, a * b];
                    for (value, term) in map.iter_mut().zip(terms) {
                        *value += weight * term;
                    }
                }
            }
        }
        maps.iter()
            .map(|map| map.map(|v| v / total))
            .map(|[a, b, c, d]| f64::from(similarity(a, b, c, d)))
            .sum()
    };
    let pixels: Vec<usize> = (0..width * height).filter(|&i| shown(i)).collect();
    let scores: Vec<f64> = pixels.par_iter().map(|&pixel| of_pixel(pixel)).collect();
    scores.iter().sum::<f64>() / (3 * pixels.len()).max(1) as f64
}
