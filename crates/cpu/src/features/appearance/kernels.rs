//! `appearance`: applies the photo's bilateral grid to the image, and its backward pass. Reference:
//! `dapple_reference::appearance`.
//!
//! Forward, rows of tiles independently:
//! 1. For each row of pixels, interpolate between the grid's two planes around the row. The result is
//!    `[x, luminance, 3, 4]`.
//! 2. For each pixel, interpolate along x, then along luminance. The product of this map and the
//!    pixel's colour is `corrected`.
//!
//! Backward, rows of tiles independently; `image_gradient` is dL/dcorrected before and dL/dimage
//! after:
//! 3. Each pixel adds its part to the derivatives of its row's interpolated grid. A row adds those to
//!    its two planes. The tasks' sums are added in order.
//! 4. The regulariser's derivative is added, and Adam takes its step. The bias correction counts the
//!    steps of this photo; between two of them, its moments do not change.

use crate::frame::{CameraF32, Frame, PLANES, TILE_ROWS, grow, within};
use crate::simd::{ROW, Row};
use dapple_engine::appearance::{AFFINE, IDENTITY, Place, grid_floats};
use dapple_engine::constants::LUMINANCE;
use dapple_engine::{Adam, AppearanceGrids, AppearanceSettings, RestedAdam};
use rayon::prelude::*;

type Affine = [f32; AFFINE];

/// Inputs of all tasks.
#[derive(Clone, Copy)]
struct Slicing<'a> {
    size: [usize; 2],
    across: usize,
    cells: [usize; 3],
    grid: &'a [f32],
}

/// Affine map of a pixel, and its derivative by the place along the luminance.
struct Sliced {
    map: Affine,
    change: Affine,
    x: Place,
    luminance: Place,
    /// Cells per unit of luminance; 0 beyond the ends.
    slope: f32,
}

impl<'a> Slicing<'a> {
    fn new(camera: &CameraF32, cells: [u32; 3], grid: &'a [f32]) -> Self {
        Self {
            size: camera.size.map(|v| v as usize),
            across: camera.tiles[0] as usize,
            cells: cells.map(|n| n as usize),
            grid,
        }
    }

    /// Returns the count of numbers in one plane: all cells of one y.
    fn plane(&self) -> usize {
        self.cells[0] * self.cells[2] * AFFINE
    }

    fn row(&self, y: usize) -> Place {
        Place::of_pixel(y, self.size[1], self.cells[1])
    }

    /// Computes step 1.
    fn mix_planes(&self, row: Place, out: &mut [f32]) {
        let plane = |y: usize| &self.grid[y * self.plane()..(y + 1) * self.plane()];
        let pairs = plane(row.first).iter().zip(plane(row.next));
        for (out, (a, b)) in out.iter_mut().zip(pairs) {
            *out = a + row.part * (b - a);
        }
    }

    /// Computes the map of step 2.
    #[inline(always)]
    fn slice(&self, mixed: &[f32], x: usize, rgb: [f32; 3]) -> Sliced {
        let [nx, _, nl] = self.cells;
        let x = Place::of_pixel(x, self.size[0], nx);
        let scale = (nl - 1) as f32;
        let brightness: f32 = LUMINANCE[0] * rgb[0] + LUMINANCE[1] * rgb[1] + LUMINANCE[2] * rgb[2];
        let luminance = Place::at(brightness.clamp(0.0, 1.0) * scale, nl);
        let along_x = |l: usize| -> Affine {
            let (a, b) = (
                affine(mixed, x.first * nl + l),
                affine(mixed, x.next * nl + l),
            );
            std::array::from_fn(|k| a[k] + x.part * (b[k] - a[k]))
        };
        let (dark, light) = (along_x(luminance.first), along_x(luminance.next));
        let change: Affine = std::array::from_fn(|k| light[k] - dark[k]);
        Sliced {
            map: std::array::from_fn(|k| dark[k] + luminance.part * change[k]),
            change,
            x,
            luminance,
            slope: if brightness > 0.0 && brightness < 1.0 {
                scale
            } else {
                0.0
            },
        }
    }

    /// Returns the rows of pixels of a row of tiles.
    fn rows(&self, tile_row: usize) -> std::ops::Range<usize> {
        tile_row * ROW..((tile_row + 1) * ROW).min(self.size[1])
    }
}

#[inline(always)]
fn affine(mixed: &[f32], cell: usize) -> &[f32] {
    &mixed[cell * AFFINE..(cell + 1) * AFFINE]
}

#[inline(always)]
fn colour(rows: &[Row], (row, lane): (usize, usize)) -> [f32; 3] {
    [0, 1, 2].map(|c| rows[row + c * ROW].0[lane])
}

/// Fills `frame.corrected` from `frame.image`.
pub fn run(camera: &CameraF32, cells: [u32; 3], grid: &[f32], frame: &mut Frame) {
    let slicing = Slicing::new(camera, cells, grid);
    let rows = camera.tile_count() * TILE_ROWS;
    grow(&mut frame.corrected, rows, Row::ZERO);
    let of_tile_row = slicing.across * TILE_ROWS;
    let image = &frame.image[..rows];
    frame.corrected[..rows]
        .par_chunks_mut(of_tile_row)
        .zip(image.par_chunks(of_tile_row))
        .enumerate()
        .for_each(|(tile_row, (corrected, image))| {
            let mut mixed = vec![0.0; slicing.plane()];
            for y in slicing.rows(tile_row) {
                slicing.mix_planes(slicing.row(y), &mut mixed);
                for x in 0..slicing.size[0] {
                    let place = within(x, y);
                    let rgb = colour(image, place);
                    let map = slicing.slice(&mixed, x, rgb).map;
                    for c in 0..3 {
                        corrected[place.0 + c * ROW].0[place.1] = apply(&map[4 * c..], rgb);
                    }
                }
            }
        });
}

#[inline(always)]
fn apply(row: &[f32], rgb: [f32; 3]) -> f32 {
    row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2] + row[3]
}

/// Derivatives of the planes that a task's rows are interpolated from.
struct Part {
    first_plane: usize,
    values: Vec<f32>,
}

/// Computes step 3: turns `frame.image_gradient` into dL/dimage, and returns dL/dgrid.
pub fn backward(camera: &CameraF32, cells: [u32; 3], grid: &[f32], frame: &mut Frame) -> Vec<f32> {
    let slicing = Slicing::new(camera, cells, grid);
    let rows = camera.tile_count() * TILE_ROWS;
    let of_tile_row = slicing.across * TILE_ROWS;
    let image = &frame.image[..rows];
    let parts: Vec<Part> = frame.image_gradient[..rows]
        .par_chunks_mut(of_tile_row)
        .zip(image.par_chunks(of_tile_row))
        .enumerate()
        .map(|(tile_row, (gradient, image))| slicing.go_back(tile_row, image, gradient))
        .collect();
    let mut out = vec![0.0; grid_floats(cells)];
    for part in parts {
        let from = part.first_plane * slicing.plane();
        for (sum, value) in out[from..].iter_mut().zip(part.values) {
            *sum += value;
        }
    }
    out
}

impl Slicing<'_> {
    fn go_back(&self, tile_row: usize, image: &[Row], gradient: &mut [Row]) -> Part {
        let plane = self.plane();
        let rows = self.rows(tile_row);
        let first_plane = self.row(rows.start).first;
        let last_plane = self.row(rows.end - 1).next;
        let mut values = vec![0.0; (last_plane + 1 - first_plane) * plane];
        let (mut mixed, mut sums) = (vec![0.0; plane], vec![0.0; plane]);
        for y in rows {
            let row = self.row(y);
            self.mix_planes(row, &mut mixed);
            sums.fill(0.0);
            for x in 0..self.size[0] {
                let place = within(x, y);
                let dl = colour(gradient, place);
                let by_rgb = self.pixel(&mixed, x, colour(image, place), dl, &mut sums);
                for c in 0..3 {
                    gradient[place.0 + c * ROW].0[place.1] = by_rgb[c];
                }
            }
            for (target, weight) in [(row.first, 1.0 - row.part), (row.next, row.part)] {
                let target = &mut values[(target - first_plane) * plane..][..plane];
                for (sum, value) in target.iter_mut().zip(&sums) {
                    *sum += weight * value;
                }
            }
        }
        Part {
            first_plane,
            values,
        }
    }

    /// Adds a pixel's part to the derivatives of the interpolated grid; returns the derivative by the
    /// pixel's colour.
    #[inline(always)]
    fn pixel(
        &self,
        mixed: &[f32],
        x: usize,
        rgb: [f32; 3],
        dl: [f32; 3],
        sums: &mut [f32],
    ) -> [f32; 3] {
        let sliced = self.slice(mixed, x, rgb);
        let input = [rgb[0], rgb[1], rgb[2], 1.0];
        let outer: Affine = std::array::from_fn(|k| dl[k / 4] * input[k % 4]);
        let nl = self.cells[2];
        let (across, along) = (sliced.x, sliced.luminance);
        for (cell_x, weight_x) in [
            (across.first, 1.0 - across.part),
            (across.next, across.part),
        ] {
            for (cell_l, weight) in [
                (along.first, weight_x * (1.0 - along.part)),
                (along.next, weight_x * along.part),
            ] {
                let cell = cell_x * nl + cell_l;
                let sums = &mut sums[cell * AFFINE..(cell + 1) * AFFINE];
                for k in 0..AFFINE {
                    sums[k] += weight * outer[k];
                }
            }
        }
        let by_luminance: f32 = (0..AFFINE).map(|k| sliced.change[k] * outer[k]).sum();
        [0, 1, 2].map(|j| {
            let direct: f32 = (0..3).map(|i| sliced.map[4 * i + j] * dl[i]).sum();
            direct + LUMINANCE[j] * sliced.slope * by_luminance
        })
    }
}

/// Computes step 4: a step of a view's grid along `gradient`, which does not contain the regulariser
/// yet.
pub fn step(
    appearance: &mut AppearanceGrids,
    view: usize,
    mut gradient: Vec<f32>,
    settings: &AppearanceSettings,
    adam: &Adam,
) {
    let floats = grid_floats(settings.cells);
    let range = view * floats..(view + 1) * floats;
    regularise(
        &appearance.coefficients[range.clone()],
        settings,
        &mut gradient,
    );
    appearance.seen[view] = appearance.seen[view].saturating_add(1);
    let adam = RestedAdam::new(settings.rate, appearance.seen[view].into(), adam);
    let coefficients = &mut appearance.coefficients[range.clone()];
    let first = &mut appearance.first_moments[range.clone()];
    let second = &mut appearance.second_moments[range];
    for (((number, m), v), g) in coefficients.iter_mut().zip(first).zip(second).zip(gradient) {
        adam.advance(number, m, v, g);
    }
}

/// Adds the regulariser's derivative.
fn regularise(grid: &[f32], settings: &AppearanceSettings, gradient: &mut [f32]) {
    let [nx, ny, nl] = settings.cells.map(|n| n as usize);
    for (stride, count) in [(nl, nx), (nx * nl, ny), (1, nl)] {
        let differences = nx * ny * nl / count * (count - 1) * AFFINE;
        let weight = 2.0 * settings.smoothness / differences.max(1) as f32;
        for cell in (0..nx * ny * nl).filter(|cell| cell / stride % count + 1 < count) {
            for k in 0..AFFINE {
                let (here, next) = (cell * AFFINE + k, (cell + stride) * AFFINE + k);
                let pull = weight * (grid[next] - grid[here]);
                gradient[next] += pull;
                gradient[here] -= pull;
            }
        }
    }
    let weight = 2.0 * settings.identity / (nx * ny * nl) as f32;
    let distances = grid.iter().zip(IDENTITY.iter().cycle());
    for (sum, (value, identity)) in gradient.iter_mut().zip(distances) {
        *sum += weight * (value - identity);
    }
}

const _: () = assert!(PLANES == 4, "the fourth plane's gradient stays zero");
