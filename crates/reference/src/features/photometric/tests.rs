//! The photometric model of the reference against finite differences of itself, and against known values.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::finite_differences::{assert_close, central_difference, dot, weights};
use crate::scenes::Random;
use crate::{PhotometricImage, photometric_prior};
use dapple_engine::features::photometric::{CAMERA, CURVES, ROW};

const SIZE: [usize; 2] = [7, 5];
const PRINCIPAL: [f64; 2] = [3.1, 2.7];

fn row(seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut row: Vec<f64> = (0..ROW).map(|_| random.uniform(-0.6, 0.6)).collect();
    // Unused numbers.
    row[3] = 0.0;
    row[ROW - 1] = 0.0;
    row
}

/// Returns colours from 0 to 1.5: the gains send some beyond 1.
fn colours(seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let count = 3 * SIZE[0] * SIZE[1];
    (0..count).map(|_| random.uniform(0.0, 1.5)).collect()
}

fn image(rgb: &[f64]) -> PhotometricImage<'_> {
    PhotometricImage {
        rgb,
        size: SIZE,
        principal: PRINCIPAL,
    }
}

fn moved(values: &[f64], i: usize, by: f64) -> Vec<f64> {
    let mut out = values.to_vec();
    out[i] += by;
    out
}

#[test]
fn the_backward_pass_agrees_with_finite_differences() {
    for seed in 0..4 {
        let (row, rgb) = (row(seed), colours(seed + 10));
        let g = weights(3, rgb.len());
        let (by_rgb, by_row) = image(&rgb).backward(&row, &g);
        let numeric: Vec<f64> = (0..rgb.len())
            .map(|i| central_difference(|by| dot(&image(&moved(&rgb, i, by)).corrected(&row), &g)))
            .collect();
        assert_close("colours", &by_rgb, &numeric);
        let numeric: Vec<f64> = (0..ROW)
            .map(|i| central_difference(|by| dot(&image(&rgb).corrected(&moved(&row, i, by)), &g)))
            .collect();
        assert_close("row", &by_row, &numeric);
    }
}

#[test]
fn the_priors_gradient_agrees_with_finite_differences() {
    let row = row(7);
    let numeric: Vec<f64> = (0..ROW)
        .map(|i| central_difference(|by| photometric_prior(&moved(&row, i, by), 0.7).0))
        .collect();
    assert_close("prior", &photometric_prior(&row, 0.7).1, &numeric);
}

/// Zeros change nothing; a log gain scales; vignetting is 1 at the principal point and acts at the corner as stated.
#[test]
fn numbers_mean_what_they_say() {
    let rgb = colours(1);
    assert_eq!(image(&rgb).corrected(&[0.0; ROW]), rgb);
    let mut row = [0.0; ROW];
    row[1] = 2.0f64.ln();
    let out = image(&rgb).corrected(&row);
    for (i, (out, x)) in out.iter().zip(&rgb).enumerate() {
        let gain = if i % 3 == 1 { 2.0 } else { 1.0 };
        assert!((out - gain * x).abs() < 1e-12);
    }
    // Half of the diagonal is one unit of the radius.
    let grey = [0.5; 3];
    let corner = PhotometricImage {
        rgb: &grey,
        size: [1, 1],
        principal: [0.0, 0.0],
    };
    let mut row = [0.0; ROW];
    row[CAMERA..CAMERA + 3].copy_from_slice(&[-0.1, -0.2, -0.3]);
    let out = corner.corrected(&row);
    assert!((out[0] - 0.5 * (-0.6f64).exp()).abs() < 1e-12);
    assert_eq!(out[1..], [0.5; 2]);
    // The curve keeps black and white.
    let ends = [0.0, 1.0, 1.0];
    let mut row = [0.0; ROW];
    row[CURVES..CURVES + 6].copy_from_slice(&[3.0, -2.0, 1.0, 2.0, -3.0, 0.5]);
    let pixel = PhotometricImage {
        rgb: &ends,
        ..corner
    };
    assert_eq!(pixel.corrected(&row), ends);
}
