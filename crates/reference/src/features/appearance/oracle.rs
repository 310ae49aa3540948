//! `appearance`: applies a photo's bilateral grid to a render, to reproduce the colours of the
//! photo's camera.
//!
//! A grid of affine colour maps over x, y and luminance (Chen et al. 2007, "Real-time Edge-Aware
//! Image Processing with the Bilateral Grid"), one per photo (Wang et al. 2024, "Bilateral Guided
//! Radiance Field Processing", arXiv:2406.00448). A grid of one cell is an exposure (Kerbl et al.
//! 2024, "A Hierarchical 3D Gaussian Representation", arXiv:2406.12080).
//!
//! 1. Pixel x of W has the coordinate `(x + 0.5) / W * (cells - 1)` in cells, and y accordingly.
//!    Along the third axis, the coordinate is the luminance, clamped to 0..1, times `cells - 1`.
//! 2. The map of a pixel is the trilinear mean of the eight maps around it, the colour
//!    `A (r, g, b, 1)`.
//! 3. Backward: the colour changes the result itself, and through its coordinate on the third axis.
//! 4. The regulariser: `smoothness` times the sum over the three axes of the mean squared difference
//!    of neighbours (the paper's total variation), and `identity` times the mean over cells of the
//!    squared distance from the identity. The second term fixes what the first does not: splats and
//!    grids share the brightness of the whole scene. The second term
//!    selects, among the pairs that give the same photos, the pair whose grids are nearest to the
//!    identity.

use dapple_engine::appearance::{AFFINE, AppearanceSettings, IDENTITY};
use dapple_engine::constants::LUMINANCE;

/// Returns the cells around a coordinate, their weights, and the weights' derivatives by the
/// coordinate.
fn around(at: f64, cells: usize) -> [(usize, f64, f64); 2] {
    let first = (at.floor() as usize).min(cells.max(2) - 2);
    let next = (first + 1).min(cells - 1);
    let part = at - first as f64;
    // With one cell, both entries are that cell, and the derivatives cancel.
    [(first, 1.0 - part, -1.0), (next, part, 1.0)]
}

/// Returns the indices of a pixel's maps in the grid, with weight and its derivative by luminance.
fn corners(
    cells: [u32; 3],
    [x, y]: [usize; 2],
    [width, height]: [usize; 2],
    rgb: &[f64],
) -> Vec<(usize, f64, f64)> {
    let [nx, ny, nl] = cells.map(|n| n as usize);
    let along = |i: usize, n: usize, cells: usize| {
        around((i as f64 + 0.5) / n as f64 * (cells - 1) as f64, cells)
    };
    let luminance = luminance(rgb);
    let scale = (nl - 1) as f64;
    // Beyond the ends the grid is constant.
    let slope = if luminance > 0.0 && luminance < 1.0 {
        scale
    } else {
        0.0
    };
    let mut out = Vec::with_capacity(8);
    for (j, wy, _) in along(y, height, ny) {
        for (i, wx, _) in along(x, width, nx) {
            for (k, wl, dl) in around(luminance.clamp(0.0, 1.0) * scale, nl) {
                let place = ((j * nx + i) * nl + k) * AFFINE;
                out.push((place, wx * wy * wl, wx * wy * dl * slope));
            }
        }
    }
    out
}

fn luminance(rgb: &[f64]) -> f64 {
    LUMINANCE
        .iter()
        .zip(rgb)
        .map(|(&w, v)| f64::from(w) * v)
        .sum()
}

/// Applies a grid, `[y, x, luminance, 3, 4]`, to an image, `[height, width, 3]`.
pub fn appearance(
    grid: &[f64],
    cells: [u32; 3],
    rgb: &[f64],
    width: usize,
    height: usize,
) -> Vec<f64> {
    let mut out = vec![0.0; rgb.len()];
    for (pixel, colour) in rgb.chunks_exact(3).enumerate() {
        let at = [pixel % width, pixel / width];
        let input = [colour[0], colour[1], colour[2], 1.0];
        for (place, weight, _) in corners(cells, at, [width, height], colour) {
            for (i, &v) in grid[place..place + AFFINE].iter().enumerate() {
                out[3 * pixel + i / 4] += weight * v * input[i % 4];
            }
        }
    }
    out
}

/// Converts the derivative by the result of [`appearance`] to the derivatives by the image and by
/// the grid.
pub fn appearance_backward(
    grid: &[f64],
    cells: [u32; 3],
    rgb: &[f64],
    width: usize,
    height: usize,
    dl_dout: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let mut dl_drgb = vec![0.0; rgb.len()];
    let mut dl_dgrid = vec![0.0; grid.len()];
    for (pixel, colour) in rgb.chunks_exact(3).enumerate() {
        let at = [pixel % width, pixel / width];
        let input = [colour[0], colour[1], colour[2], 1.0];
        let dl = &dl_dout[3 * pixel..3 * pixel + 3];
        let mut by_luminance = 0.0;
        for (place, weight, change) in corners(cells, at, [width, height], colour) {
            for (i, &v) in grid[place..place + AFFINE].iter().enumerate() {
                dl_dgrid[place + i] += weight * dl[i / 4] * input[i % 4];
                by_luminance += change * dl[i / 4] * v * input[i % 4];
                if i % 4 < 3 {
                    dl_drgb[3 * pixel + i % 4] += weight * dl[i / 4] * v;
                }
            }
        }
        for (c, &w) in LUMINANCE.iter().enumerate() {
            dl_drgb[3 * pixel + c] += f64::from(w) * by_luminance;
        }
    }
    (dl_drgb, dl_dgrid)
}

/// Computes step 4: the regulariser of a grid, and its derivative.
pub fn appearance_regulariser(grid: &[f64], settings: &AppearanceSettings) -> (f64, Vec<f64>) {
    let [nx, ny, nl] = settings.cells.map(|n| n as usize);
    let (smoothness, identity) = (f64::from(settings.smoothness), f64::from(settings.identity));
    let mut total = 0.0;
    let mut gradient = vec![0.0; grid.len()];
    for (stride, count) in [(nl, nx), (nx * nl, ny), (1, nl)] {
        // Number of differences, each of all numbers of an affine map.
        let differences = nx * ny * nl / count * (count - 1) * AFFINE;
        let weight = smoothness / differences.max(1) as f64;
        for cell in (0..nx * ny * nl).filter(|cell| cell / stride % count + 1 < count) {
            for k in 0..AFFINE {
                let (here, next) = (cell * AFFINE + k, (cell + stride) * AFFINE + k);
                let difference = grid[next] - grid[here];
                total += weight * difference * difference;
                gradient[next] += 2.0 * weight * difference;
                gradient[here] -= 2.0 * weight * difference;
            }
        }
    }
    let weight = identity / (nx * ny * nl) as f64;
    for (i, &v) in grid.iter().enumerate() {
        let distance = v - f64::from(IDENTITY[i % AFFINE]);
        total += weight * distance * distance;
        gradient[i] += 2.0 * weight * distance;
    }
    (total, gradient)
}
