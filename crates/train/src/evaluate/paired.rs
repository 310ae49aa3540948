//! Compares the scores of two runs on the same photos: the difference, and whether it is larger than noise.
//!
//! Photos differ in difficulty by far more than runs do, so differences are computed for each photo.
//! 1. The mean difference, and its 95 % interval: the percentile bootstrap (Efron & Tibshirani 1993, chapter 13) over
//!    photos, with fixed random numbers.
//! 2. The number of photos that are better, and the probability of such an uneven count among equally good runs: the
//!    two-sided sign test. Photos without a difference are excluded.
//! 3. A difference counts if the interval excludes zero, there are at least [`LEAST_IMAGES`], and the sign test does
//!    not point the other way.
//!
//! A difference that counts would also show on other photos of the scene. Another seed is another run: to show that a
//! *method* is better takes several runs of each.

use super::scores::EvalReport;
use crate::random::{Purpose, below, generator};
use dapple_scene::{Error, Result};
use serde::Serialize;

/// Rounds of the bootstrap.
const ROUNDS: usize = 10_000;

/// With fewer photos even a unanimous sign test has a probability above 5 % (2 / 2^n).
pub const LEAST_IMAGES: usize = 6;

/// The first run's scores minus the second's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// For each photo, in order.
    pub images: Vec<f64>,
    /// Mean of the differences.
    pub mean: f64,
    /// 95 % interval of the mean.
    pub interval: [f64; 2],
    /// Photos on which the first run is better.
    pub better: usize,
    /// Photos on which the first run is worse.
    pub worse: usize,
    /// Two-sided probability of such counts, or more lopsided ones, if neither run were better.
    pub sign_test: f64,
    /// True if the difference is larger than the noise of the photos.
    pub is_beyond_noise: bool,
}

/// Differences of two runs on the same photos.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// Higher is better.
    pub psnr: Difference,
    /// Higher is better.
    pub ssim: Difference,
    /// Lower is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lpips: Option<Difference>,
}

impl Paired {
    /// Compares two reports of the same photos.
    ///
    /// # Errors
    /// The photos differ.
    pub fn new(a: &EvalReport, b: &EvalReport) -> Result<Self> {
        let names = |report: &EvalReport| -> Vec<String> {
            report
                .images
                .iter()
                .map(|image| image.name.clone())
                .collect()
        };
        if names(a) != names(b) {
            return Err(Error::input("the two runs were scored on different photos")
                .hint("score both on one capture with one hold-out split"));
        }
        let pairs = || a.images.iter().zip(&b.images);
        let lpips: Option<Vec<f64>> = pairs().map(|(a, b)| Some(a.lpips? - b.lpips?)).collect();
        Ok(Self {
            psnr: Difference::from_images(pairs().map(|(a, b)| a.psnr - b.psnr).collect(), 1.0),
            ssim: Difference::from_images(pairs().map(|(a, b)| a.ssim - b.ssim).collect(), 1.0),
            lpips: lpips.map(|differences| Difference::from_images(differences, -1.0)),
        })
    }
}

impl Difference {
    /// `sign` is 1 if higher is better, -1 if lower is.
    pub(crate) fn from_images(images: Vec<f64>, sign: f64) -> Self {
        let count = images.len();
        let mean = images.iter().sum::<f64>() / count.max(1) as f64;
        let better = images.iter().filter(|&&d| d * sign > 0.0).count();
        let worse = images.iter().filter(|&&d| d * sign < 0.0).count();
        let interval = interval(&images);
        let leaves_out_zero = interval[0] > 0.0 || interval[1] < 0.0;
        let agree = if mean * sign > 0.0 {
            better >= worse
        } else {
            worse >= better
        };
        Self {
            is_beyond_noise: leaves_out_zero && agree && count >= LEAST_IMAGES,
            sign_test: sign_test(better, worse),
            images,
            mean,
            interval,
            better,
            worse,
        }
    }
}

/// Step 1.
fn interval(differences: &[f64]) -> [f64; 2] {
    let n = differences.len();
    if n == 0 {
        return [0.0; 2];
    }
    let mut random = generator(0, Purpose::Bootstrap, 0);
    let mut means: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            (0..n)
                .map(|_| differences[below(n, &mut random)])
                .sum::<f64>()
                / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    [ROUNDS / 40, ROUNDS - 1 - ROUNDS / 40].map(|at| means[at])
}

/// Step 2: twice the binomial tail, in logarithms: a thousand photos overflow factorials.
fn sign_test(better: usize, worse: usize) -> f64 {
    let n = better + worse;
    let mut log_chance = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=better.min(worse) {
        tail += log_chance.exp();
        log_chance += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_the_binomial_tail() {
        // 2 (1 + 8) / 2^8, and the smallest probability of six.
        assert!((sign_test(7, 1) - 18.0 / 256.0).abs() < 1e-12);
        assert!((sign_test(0, 6) - 2.0 / 64.0).abs() < 1e-12);
        assert_eq!(sign_test(4, 4), 1.0);
        assert_eq!(sign_test(0, 0), 1.0);
        assert!(sign_test(3000, 200) < 1e-100);
    }

    #[test]
    fn noise_is_told_from_a_difference() {
        // As many values above zero as below: no difference.
        let noise: Vec<f64> = (0..40).map(|i| (f64::from(i) * 2.4).sin()).collect();
        let none = Difference::from_images(noise.clone(), 1.0);
        assert!(!none.is_beyond_noise, "{none:?}");
        assert!(none.interval[0] < 0.0 && none.interval[1] > 0.0);
        // The interval of a mean: 1.96 standard errors to each side.
        let spread = (noise.iter().map(|d| d * d).sum::<f64>() / 40.0 - none.mean.powi(2)).sqrt();
        let width = none.interval[1] - none.interval[0];
        let expected = 2.0 * 1.96 * spread / 40.0f64.sqrt();
        assert!((width / expected - 1.0).abs() < 0.05, "{width} {expected}");

        let shifted = |by: f64| noise.iter().map(|d| d + by).collect::<Vec<_>>();
        let better = Difference::from_images(shifted(0.5), 1.0);
        assert!(better.is_beyond_noise && better.better > better.worse);
        // Lower is better: the same numbers mean worse.
        let worse = Difference::from_images(shifted(0.5), -1.0);
        assert!(worse.is_beyond_noise && worse.better < worse.worse);
        // Five photos are too few, even if unanimous.
        let few = Difference::from_images(vec![0.1, 0.2, 0.1, 0.3, 0.1], 1.0);
        assert!(few.interval[0] > 0.0 && !few.is_beyond_noise);
        assert_eq!(
            Difference::from_images(noise.clone(), 1.0),
            Difference::from_images(noise, 1.0)
        );
    }
}
