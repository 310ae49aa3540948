//! Depth loss, part of the stage `loss`, and depth images row by row. Reference:
//! `dapple_reference::depth_loss`.
//!
//! 1. `residual = D / t - alpha` at each sample of known depth t.
//! 2. `dL/dD = c sign / t` into `depth.gradient`, zero at all other pixels.
//! 3. `dL/dalpha = -c sign`: added to the derivative by transmittance, which is one minus alpha.
//!
//! The stage uses no threads: there are at most as many samples as pixels, and a pixel takes ten
//! operations.

use crate::frame::{CameraF32, Frame, PLANES, grow, tiled};
use crate::simd::{ROW, Row};
use dapple_engine::DepthSample;

/// Fills `depth.gradient`, and adds to `image_gradient`, which the loss of the image has filled.
pub fn run(camera: &CameraF32, samples: &[DepthSample], weight: f32, frame: &mut Frame) {
    clear_gradient(camera, frame);
    let width = camera.size[0] as usize;
    for sample in samples {
        let pixel = sample.pixel as usize;
        let (row, lane) = tiled(camera, pixel % width, pixel / width);
        let depth_row = depth_row(row);
        let transmittance = frame.image[row + 3 * ROW].0[lane];
        let depth = frame.depth.blended[depth_row].0[lane];
        let residual = depth * sample.inverse_depth - (1.0 - transmittance);
        let sign = if residual == 0.0 {
            0.0
        } else {
            residual.signum()
        };
        let slope = weight * sample.weight * sign;
        frame.depth.gradient[depth_row].0[lane] = slope * sample.inverse_depth;
        frame.image_gradient[row + 3 * ROW].0[lane] += slope;
    }
}

/// Writes dL/d(blended depth), row by row, into tiles.
pub fn set_gradient(camera: &CameraF32, by_depth: &[f32], frame: &mut Frame) {
    clear_gradient(camera, frame);
    let width = camera.size[0] as usize;
    for (pixel, &value) in by_depth.iter().enumerate() {
        let (row, lane) = tiled(camera, pixel % width, pixel / width);
        frame.depth.gradient[depth_row(row)].0[lane] = value;
    }
}

/// Converts a tiled depth image to rows.
pub fn untiled(camera: &CameraF32, rows: &[Row]) -> Vec<f32> {
    let [width, height] = camera.size.map(|v| v as usize);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let value = |(x, y)| {
        let (row, lane) = tiled(camera, x, y);
        rows[depth_row(row)].0[lane]
    };
    pixels.map(value).collect()
}

fn clear_gradient(camera: &CameraF32, frame: &mut Frame) {
    let rows = camera.tile_count() * ROW;
    grow(&mut frame.depth.gradient, rows, Row::ZERO);
    frame.depth.gradient[..rows].fill(Row::ZERO);
}

/// Returns the row, in an image of one plane, of the pixels that `row` has in the first plane of
/// the image.
pub fn depth_row(row: usize) -> usize {
    row / (PLANES * ROW) * ROW + row % ROW
}
