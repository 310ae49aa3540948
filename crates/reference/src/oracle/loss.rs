//! `loss`: `(1 - w) L1 + w (1 - SSIM)` (Kerbl et al. 2023, eq. 7, w = 0.2), its derivative, and the
//! scores of evaluation.
//!
//! 1. A masked pixel of the prediction is replaced by the target's: no loss, no gradient.
//! 2. L1 is the mean over unmasked pixels and channels.
//! 3. SSIM (Wang et al. 2004, eq. 13) is computed per channel in an 11 x 11 Gaussian window of
//!    sigma 1.5, for windows fully inside the image ("valid"). Its mean is over channels
//!    and over windows whose centre pixel is not masked.
//! 4. Without any such window (a small image) there is no SSIM term and L1 has weight 1. Without
//!    any unmasked pixel the loss is zero.

use dapple_engine::constants::{SSIM_C1, SSIM_C2, SSIM_WINDOW, ssim_window};
use dapple_scene::Photo;

const CHANNELS: usize = 3;

/// Returns the target of a photo, 0..1, `[height, width, 3]`; with alpha, over the background.
pub fn photo_target(photo: &Photo, background: [f32; 3]) -> Vec<f64> {
    let value = |(i, &byte): (usize, &u8)| {
        let value = f64::from(byte) / 255.0;
        let alpha = match &photo.alpha {
            Some(alpha) => f64::from(alpha[i / CHANNELS]) / 255.0,
            None => 1.0,
        };
        alpha * value + (1.0 - alpha) * f64::from(background[i % CHANNELS])
    };
    photo.rgb.iter().enumerate().map(value).collect()
}

/// Returns the pixels that count, `[height, width]`; `None` if all do. The threshold is half.
pub fn photo_mask(photo: &Photo) -> Option<Vec<bool>> {
    let mask = photo.mask.as_ref()?;
    Some(mask.iter().map(|&value| value >= 128).collect())
}

/// Returns the loss of a prediction against a target, both `[height, width, 3]`, and its derivative
/// by the prediction. `mask` is `[height, width]`, true for pixels that count.
pub fn loss(
    prediction: &[f64],
    target: &[f64],
    width: usize,
    height: usize,
    mask: Option<&[bool]>,
    ssim_weight: f64,
) -> (f64, Vec<f64>) {
    let counts = |pixel: usize| mask.is_none_or(|mask| mask[pixel]);
    let unmasked = (0..width * height).filter(|&pixel| counts(pixel)).count();
    let mut gradient = vec![0.0; prediction.len()];
    if unmasked == 0 {
        return (0.0, gradient);
    }
    let prediction: Vec<f64> = prediction
        .iter()
        .zip(target)
        .enumerate()
        .map(|(i, (&p, &t))| if counts(i / CHANNELS) { p } else { t })
        .collect();

    let ssim = ssim_and_gradient(&prediction, target, width, height, counts);
    let ssim_weight = if ssim.is_some() { ssim_weight } else { 0.0 };
    let mut total = 0.0;
    if let Some((ssim, ssim_gradient)) = ssim {
        total += ssim_weight * (1.0 - ssim);
        for (g, s) in gradient.iter_mut().zip(ssim_gradient) {
            *g -= ssim_weight * s;
        }
    }
    let l1_weight = (1.0 - ssim_weight) / (unmasked * CHANNELS) as f64;
    for (i, (p, t)) in prediction.iter().zip(target).enumerate() {
        let difference = p - t;
        total += l1_weight * difference.abs();
        if difference != 0.0 {
            gradient[i] += l1_weight * difference.signum();
        }
        if !counts(i / CHANNELS) {
            gradient[i] = 0.0;
        }
    }
    (total, gradient)
}

/// Returns the mean structural similarity of two images, `[height, width, 3]` with values 0..1;
/// `None` if they are smaller than the window.
pub fn ssim(a: &[f64], b: &[f64], width: usize, height: usize) -> Option<f64> {
    ssim_and_gradient(a, b, width, height, |_| true).map(|(value, _)| value)
}

/// Returns the peak signal-to-noise ratio for values 0..1, dB: `-10 log10(mean squared error)`.
/// Infinite for equal images.
pub fn psnr(a: &[f64], b: &[f64]) -> f64 {
    let squares: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    -10.0 * (squares / a.len().max(1) as f64).log10()
}

/// Returns the mean SSIM over the windows whose centre `counts`, and its derivative by `a`.
fn ssim_and_gradient(
    a: &[f64],
    b: &[f64],
    width: usize,
    height: usize,
    counts: impl Fn(usize) -> bool,
) -> Option<(f64, Vec<f64>)> {
    if width < SSIM_WINDOW || height < SSIM_WINDOW {
        return None;
    }
    let (columns, rows) = (width - SSIM_WINDOW + 1, height - SSIM_WINDOW + 1);
    let centre = |window: usize| {
        let (x, y) = (window % columns, window / columns);
        (y + SSIM_WINDOW / 2) * width + x + SSIM_WINDOW / 2
    };
    let windows: Vec<usize> = (0..columns * rows).filter(|&i| counts(centre(i))).collect();
    if windows.is_empty() {
        return None;
    }
    let weight = 1.0 / (windows.len() * CHANNELS) as f64;

    let mut total = 0.0;
    let mut gradient = vec![0.0; a.len()];
    for channel in 0..CHANNELS {
        let plane = |image: &[f64]| -> Vec<f64> {
            image
                .iter()
                .skip(channel)
                .step_by(CHANNELS)
                .copied()
                .collect()
        };
        let (a, b) = (plane(a), plane(b));
        let product =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        let mean = |plane: &[f64]| window_means(plane, width, height);
        let (mean_a, mean_b) = (mean(&a), mean(&b));
        let (mean_aa, mean_bb) = (mean(&product(&a, &a)), mean(&product(&b, &b)));
        let mean_ab = mean(&product(&a, &b));

        // Derivatives of the sum by the means of a, a^2 and ab in each window.
        let mut dl: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; columns * rows]);
        for &i in &windows {
            let moments = [mean_a[i], mean_b[i], mean_aa[i], mean_bb[i], mean_ab[i]];
            let (value, derivatives) = ssim_of_window(moments);
            total += weight * value;
            for (sum, derivative) in dl.iter_mut().zip(derivatives) {
                sum[i] = weight * derivative;
            }
        }
        let [by_a, by_aa, by_ab] = dl.map(|means| spread_windows(&means, width, height));
        for pixel in 0..width * height {
            gradient[pixel * CHANNELS + channel] =
                by_a[pixel] + 2.0 * a[pixel] * by_aa[pixel] + b[pixel] * by_ab[pixel];
        }
    }
    Some((total, gradient))
}

/// Computes SSIM from the window's means of a, b, a^2, b^2, ab, and its derivatives by those of a,
/// a^2 and ab.
fn ssim_of_window([a, b, aa, bb, ab]: [f64; 5]) -> (f64, [f64; 3]) {
    let luminance = (2.0 * a * b + SSIM_C1, a * a + b * b + SSIM_C1);
    let structure = (
        2.0 * (ab - a * b) + SSIM_C2,
        (aa - a * a) + (bb - b * b) + SSIM_C2,
    );
    let denominator = luminance.1 * structure.1;
    let value = luminance.0 * structure.0 / denominator;
    // The mean of a is in all four factors.
    let by_a = 2.0 * b * (structure.0 - luminance.0) / denominator
        + value * 2.0 * a * (1.0 / structure.1 - 1.0 / luminance.1);
    let by_aa = -value / structure.1;
    let by_ab = 2.0 * luminance.0 / denominator;
    (value, [by_a, by_aa, by_ab])
}

/// Returns the weighted mean in every window that fits, `[height - 10, width - 10]`: rows, then
/// columns.
fn window_means(plane: &[f64], width: usize, height: usize) -> Vec<f64> {
    let weights = ssim_window();
    let (columns, rows) = (width - SSIM_WINDOW + 1, height - SSIM_WINDOW + 1);
    let mut along_x = vec![0.0; columns * height];
    for y in 0..height {
        for x in 0..columns {
            let from = &plane[y * width + x..];
            along_x[y * columns + x] = weights.iter().zip(from).map(|(w, v)| w * v).sum();
        }
    }
    let mut out = vec![0.0; columns * rows];
    for y in 0..rows {
        for x in 0..columns {
            let at = |i: usize| along_x[(y + i) * columns + x];
            out[y * columns + x] = weights.iter().enumerate().map(|(i, w)| w * at(i)).sum();
        }
    }
    out
}

/// Computes the adjoint of [`window_means`]: spreads the value of each window over its pixels.
fn spread_windows(windows: &[f64], width: usize, height: usize) -> Vec<f64> {
    let weights = ssim_window();
    let (columns, rows) = (width - SSIM_WINDOW + 1, height - SSIM_WINDOW + 1);
    let mut along_y = vec![0.0; columns * height];
    for y in 0..rows {
        for x in 0..columns {
            for (i, w) in weights.iter().enumerate() {
                along_y[(y + i) * columns + x] += w * windows[y * columns + x];
            }
        }
    }
    let mut out = vec![0.0; width * height];
    for y in 0..height {
        for x in 0..columns {
            for (i, w) in weights.iter().enumerate() {
                out[y * width + x + i] += w * along_y[y * columns + x];
            }
        }
    }
    out
}
