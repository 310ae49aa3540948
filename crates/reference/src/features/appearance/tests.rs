//! Bilateral grids of the reference against finite differences of themselves, and against known
//! values.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::finite_differences::{assert_close, central_difference, dot, weights};
use crate::scenes::Random;
use crate::{appearance, appearance_backward, appearance_regulariser};
use dapple_engine::appearance::{AFFINE, IDENTITY, check_cells, grid_floats};
use dapple_engine::{AppearanceGrids, AppearanceSettings};

const W: usize = 7;
const H: usize = 5;
const GRIDS: [[u32; 3]; 4] = [[1, 1, 1], [4, 3, 5], [1, 2, 8], [9, 8, 2]];

fn grid(cells: [u32; 3], seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let identity = IDENTITY.iter().cycle().take(grid_floats(cells));
    identity
        .map(|&v| f64::from(v) + random.uniform(-0.3, 0.3))
        .collect()
}

fn luminance(rgb: &[f64]) -> f64 {
    0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
}

/// Returns colours from below 0 to above 1 whose luminance is not near a cell's, where the derivative
/// is discontinuous.
fn image(cells: [u32; 3], seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut out = Vec::new();
    while out.len() < 3 * W * H {
        let rgb: [f64; 3] = std::array::from_fn(|_| random.uniform(-0.2, 1.3));
        let at = luminance(&rgb) * f64::from(cells[2] - 1);
        if (at - at.round()).abs() > 0.01 || cells[2] == 1 {
            out.extend(rgb);
        }
    }
    out
}

#[test]
fn the_way_back_agrees_with_finite_differences() {
    for cells in GRIDS {
        let (grid, rgb, g) = (grid(cells, 1), image(cells, 2), weights(3, 3 * W * H));
        let (by_rgb, by_grid) = appearance_backward(&grid, cells, &rgb, W, H, &g);
        let value = |grid: &[f64], rgb: &[f64]| dot(&appearance(grid, cells, rgb, W, H), &g);
        let moved = |values: &[f64], i: usize, by: f64| {
            let mut out = values.to_vec();
            out[i] += by;
            out
        };
        let numeric: Vec<f64> = (0..rgb.len())
            .map(|i| central_difference(|by| value(&grid, &moved(&rgb, i, by))))
            .collect();
        assert_close("colours", &by_rgb, &numeric);
        let numeric: Vec<f64> = (0..grid.len())
            .map(|i| central_difference(|by| value(&moved(&grid, i, by), &rgb)))
            .collect();
        assert_close("grid", &by_grid, &numeric);
    }
}

#[test]
fn the_regularisers_gradient_agrees_with_finite_differences() {
    for cells in GRIDS {
        let settings = AppearanceSettings {
            cells,
            rate: 0.0,
            smoothness: 3.0,
            identity: 0.7,
        };
        let grid = grid(cells, 4);
        let (_, analytic) = appearance_regulariser(&grid, &settings);
        let numeric: Vec<f64> = (0..grid.len())
            .map(|i| {
                central_difference(|by| {
                    let mut moved = grid.clone();
                    moved[i] += by;
                    appearance_regulariser(&moved, &settings).0
                })
            })
            .collect();
        assert_close("regulariser", &analytic, &numeric);
    }
}

/// A grid of equal maps is that map; a ramp along an axis has the value of the coordinate.
#[test]
fn grids_mean_what_they_say() {
    for cells in GRIDS {
        let rgb = image(cells, 5);
        let identity = AppearanceGrids::identity(cells, 1);
        let identity: Vec<f64> = identity.grid(0).iter().map(|&v| v.into()).collect();
        let out = appearance(&identity, cells, &rgb, W, H);
        assert!(out.iter().zip(&rgb).all(|(a, b)| (a - b).abs() < 1e-12));
        let settings = AppearanceSettings {
            cells,
            rate: 0.0,
            smoothness: 1.0,
            identity: 1.0,
        };
        assert_eq!(appearance_regulariser(&identity, &settings).0, 0.0);
    }
    // The red offset of cell (x, y, l) is x + 10 y + 100 l: trilinear means preserve this form.
    let cells = [4, 3, 5];
    let mut grid: Vec<f64> = vec![0.0; grid_floats(cells)];
    for (cell, affine) in grid.chunks_exact_mut(AFFINE).enumerate() {
        let (x, y, l) = (cell / 5 % 4, cell / 20, cell % 5);
        affine[3] = (x + 10 * y + 100 * l) as f64;
    }
    let rgb = image(cells, 6);
    let out = appearance(&grid, cells, &rgb, W, H);
    for pixel in 0..W * H {
        let x = (pixel % W) as f64 + 0.5;
        let y = (pixel / W) as f64 + 0.5;
        let l = luminance(&rgb[3 * pixel..]).clamp(0.0, 1.0);
        let expected = 3.0 * x / W as f64 + 10.0 * 2.0 * y / H as f64 + 100.0 * 4.0 * l;
        assert!((out[3 * pixel] - expected).abs() < 1e-5);
        assert_eq!(out[3 * pixel + 1..3 * pixel + 3], [0.0; 2]);
    }
    // Neighbours along x differ by 1, along y by 10, along the luminance by 100, in one number of 12.
    let settings = AppearanceSettings {
        cells,
        rate: 0.0,
        smoothness: 1.0,
        identity: 0.0,
    };
    let expected = (1.0 + 100.0 + 10_000.0) / 12.0;
    assert!((appearance_regulariser(&grid, &settings).0 - expected).abs() < 1e-9);
}

#[test]
fn sizes_that_engines_do_not_take_are_refused() {
    assert!(check_cells([64, 64, 8]).is_ok());
    for cells in [[0, 1, 1], [65, 1, 1], [1, 65, 1], [1, 1, 9]] {
        assert!(check_cells(cells).unwrap_err().hint_text().is_some());
    }
    let mut state = AppearanceGrids::identity([2, 2, 2], 3);
    assert!(state.check().is_ok());
    state.seen.push(0);
    assert!(state.check().is_err());
}
