//! `appearance` by the photometric model: applies it to the image, and its backward pass. Reference:
//! `dapple_reference::PhotometricImage`.
//!
//! 1. Forward, rows of tiles independently: `corrected` from `image`.
//! 2. Backward, rows of tiles independently: `image_gradient` is dL/dcorrected before and dL/dimage after. A row of
//!    pixels adds its parts in `f32`, rows of tiles are added in order in `f64`.
//! 3. The prior's derivative is added, and Adam takes its step, for the photo's numbers by its own steps and for the
//!    camera's by the steps of all its photos.

use crate::frame::{CameraF32, Frame, TILE_ROWS, grow, within};
use crate::simd::{ROW as LANES, Row};
use dapple_engine::features::photometric::{
    CAMERA, CAMERA_SHARE, CURVES, Corrected, Model, RESPONSE, ROW, Radii, VIGNETTING, by_curve,
};
use dapple_engine::features::photometric::{Photometric, PhotometricSettings};
use dapple_engine::{Adam, RestedAdam};
use rayon::prelude::*;

fn radii(camera: &CameraF32) -> Radii {
    Radii::new(camera.size, camera.principal)
}

/// Computes step 1.
pub fn run(camera: &CameraF32, model: &Model, frame: &mut Frame) {
    let rows = camera.tile_count() * TILE_ROWS;
    grow(&mut frame.corrected, rows, Row::ZERO);
    let of_tile_row = camera.tiles[0] as usize * TILE_ROWS;
    let [width, height] = camera.size.map(|v| v as usize);
    let (radii, curves) = (radii(camera), model.curves());
    let image = &frame.image[..rows];
    frame.corrected[..rows]
        .par_chunks_mut(of_tile_row)
        .zip(image.par_chunks(of_tile_row))
        .enumerate()
        .for_each(|(tile_row, (corrected, image))| {
            for y in tile_row * LANES..((tile_row + 1) * LANES).min(height) {
                for x in 0..width {
                    let (row, lane) = within(x, y);
                    let radius2 = radii.squared(x, y);
                    for c in 0..3 {
                        let value = image[row + c * LANES].0[lane];
                        corrected[row + c * LANES].0[lane] =
                            model.apply(c, value, radius2, curves[c]).value;
                    }
                }
            }
        });
}

/// Computes step 2, and returns the derivative by the numbers of the model's row.
pub fn backward(camera: &CameraF32, model: &Model, frame: &mut Frame) -> [f32; ROW] {
    let rows = camera.tile_count() * TILE_ROWS;
    let of_tile_row = camera.tiles[0] as usize * TILE_ROWS;
    let [width, height] = camera.size.map(|v| v as usize);
    let (radii, curves) = (radii(camera), model.curves());
    let image = &frame.image[..rows];
    let parts: Vec<[f64; ROW]> = frame.image_gradient[..rows]
        .par_chunks_mut(of_tile_row)
        .zip(image.par_chunks(of_tile_row))
        .enumerate()
        .map(|(tile_row, (gradient, image))| {
            let mut sums = [0.0; ROW];
            for y in tile_row * LANES..((tile_row + 1) * LANES).min(height) {
                let mut row_sums = [0.0; ROW];
                for x in 0..width {
                    let (row, lane) = within(x, y);
                    let radius2 = radii.squared(x, y);
                    for c in 0..3 {
                        let value = image[row + c * LANES].0[lane];
                        let by = &mut gradient[row + c * LANES].0[lane];
                        let at = model.apply(c, value, radius2, curves[c]);
                        add(&mut row_sums, c, radius2, &at, *by);
                        *by *= at.slope * at.gain;
                    }
                }
                for (sum, part) in sums.iter_mut().zip(row_sums) {
                    *sum += f64::from(part);
                }
            }
            sums
        })
        .collect();
    let mut sums = [0.0; ROW];
    for part in parts {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value;
        }
    }
    let mut out = sums.map(|sum| sum as f32);
    // From c = tanh(p) / 2 to p.
    for (by, c) in out[CURVES..].iter_mut().zip(curves.as_flattened()) {
        *by *= 0.5 - 2.0 * c * c;
    }
    out
}

/// Adds the derivative by the numbers of a channel at one pixel; for a curve by its c.
#[inline(always)]
fn add(sums: &mut [f32; ROW], c: usize, radius2: f32, at: &Corrected, by: f32) {
    let by_exponent = by * at.slope * at.light;
    sums[c] += by_exponent;
    let mut power = radius2;
    for k in 0..VIGNETTING {
        sums[CAMERA + VIGNETTING * c + k] += by_exponent * power;
        power *= radius2;
    }
    for (k, value) in by_curve(at.light).into_iter().enumerate() {
        sums[CURVES + RESPONSE * c + k] += by * value;
    }
}

/// Computes step 3 for a view, along `gradient`, which does not contain the prior yet.
pub fn step(
    held: &mut Photometric,
    view: usize,
    gradient: &[f32; ROW],
    settings: &PhotometricSettings,
    adam: &Adam,
) {
    let camera = held.camera_row(view);
    held.seen[2 * view] = held.seen[2 * view].saturating_add(1);
    held.seen[2 * camera + 1] = held.seen[2 * camera + 1].saturating_add(1);
    let parts = [
        (view, 0..3, held.seen[2 * view], settings.rate),
        (
            camera,
            CAMERA..CURVES,
            held.seen[2 * camera + 1],
            CAMERA_SHARE * settings.rate,
        ),
        (
            camera,
            CURVES..CURVES + 3 * RESPONSE,
            held.seen[2 * camera + 1],
            CAMERA_SHARE * settings.rate,
        ),
    ];
    for (row, numbers, seen, rate) in parts {
        let weight = 2.0 * settings.prior / numbers.len() as f32;
        let adam = RestedAdam::new(rate, seen.into(), adam);
        for i in numbers {
            let at = row * ROW + i;
            let by = gradient[i] + weight * held.numbers[at];
            // As on a GPU: a derivative that is not finite moves nothing.
            let by = if by.is_finite() { by } else { 0.0 };
            let (m, v) = (&mut held.first_moments[at], &mut held.second_moments[at]);
            adam.advance(&mut held.numbers[at], m, v, by);
        }
    }
}
