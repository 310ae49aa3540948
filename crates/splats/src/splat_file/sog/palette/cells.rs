//! Cells of vectors, and Lloyd's rounds within all of them together.

use super::Vectors;
use super::grid::Grid;
use crate::splat_file::nearest::{LoadedRows, NearestCentres, Rows};
use crate::{Progress, Result};
use rayon::prelude::*;
use std::ops::Range;

/// Vectors by cell, loaded into the nearest-entry search.
pub(super) struct Cells<'a> {
    pub vectors: Vectors<'a>,
    pub rows: Vec<Vec<u32>>,
    grids: Vec<Grid>,
    loaded: Box<dyn LoadedRows + 'a>,
    stride: usize,
    /// Ranges of each cell's rows among the loaded ones.
    places: Vec<Range<usize>>,
}

impl<'a> Cells<'a> {
    pub(super) fn load(
        vectors: Vectors<'a>,
        rows: Vec<Vec<u32>>,
        by: &'a dyn NearestCentres,
    ) -> Result<Self> {
        let mut loads = Rows {
            dim: vectors.dim,
            ..Rows::default()
        };
        let stride = loads.stride();
        let of_cells: Vec<(Grid, Vec<i16>)> = rows
            .par_iter()
            .map(|rows| {
                let grid = Grid::around(vectors, rows);
                let mut values = Vec::with_capacity(rows.len() * stride);
                for &row in rows {
                    grid.put_vector(vectors.row(row), stride, &mut values);
                }
                (grid, values)
            })
            .collect();
        let all = rows.iter().map(Vec::len).sum::<usize>();
        loads.values.reserve_exact(all * stride);
        let mut grids = Vec::with_capacity(rows.len());
        for (grid, values) in of_cells {
            let first = loads.len();
            loads.groups.push(first..first + values.len() / stride);
            loads.values.extend(values);
            grids.push(grid);
        }
        Ok(Self {
            vectors,
            rows,
            grids,
            stride,
            places: loads.groups.clone(),
            loaded: by.load(loads)?,
        })
    }

    /// Returns, for each cell's vectors, the index of the nearest among centres `[centres, dim]`, cell after cell: see
    /// [`Self::with_labels`].
    pub(super) fn nearest(
        &mut self,
        centres: &(dyn Fn(usize) -> Vec<f32> + Sync),
        progress: &dyn Progress,
    ) -> Result<Vec<u32>> {
        let (grids, dim, stride) = (&self.grids, self.vectors.dim, self.stride);
        let on_grid = |cell: usize| {
            let centres = centres(cell);
            let mut numbers = Vec::with_capacity(centres.len() / dim * stride);
            for centre in centres.chunks_exact(dim) {
                grids[cell].put_centre(centre, stride, &mut numbers);
            }
            numbers
        };
        self.loaded.nearest(&on_grid, progress)
    }

    /// Iterates over a cell's vectors with the labels of [`Self::nearest`].
    pub(super) fn with_labels<'b>(
        &'b self,
        cell: usize,
        labels: &'b [u32],
    ) -> impl Iterator<Item = (u32, usize)> + Clone + 'b {
        with_labels(&self.rows[cell], &labels[self.places[cell].clone()])
    }
}

fn with_labels<'a>(
    rows: &'a [u32],
    labels: &'a [u32],
) -> impl Iterator<Item = (u32, usize)> + Clone + 'a {
    let labels = labels.iter().map(|&label| label as usize);
    rows.iter().copied().zip(labels)
}

/// Computes means of each cell's vectors, `[entries, dim]`: the requested number, or fewer if fewer vectors differ.
pub(super) fn lloyd(
    cells: &mut Cells<'_>,
    wanted: &[usize],
    rounds: u32,
    progress: &dyn Progress,
) -> Result<Vec<Vec<f32>>> {
    let vectors = cells.vectors;
    let is_each = |rows: &Vec<u32>, wanted: usize| wanted.max(1) >= rows.len();
    let begin = |(rows, &wanted): (&Vec<u32>, &usize)| match is_each(rows, wanted)
        || progress.should_stop()
    {
        true => {
            let some = rows.iter().take(wanted.max(1));
            some.flat_map(|&row| vectors.row(row)).copied().collect()
        }
        false => seeds(vectors, rows, wanted.max(1)),
    };
    let mut centres: Vec<Vec<f32>> = cells.rows.par_iter().zip(wanted).map(begin).collect();
    // Cells in which each vector is an entry are finished.
    let settled: Vec<bool> = cells
        .rows
        .iter()
        .zip(wanted)
        .map(|(r, &w)| is_each(r, w))
        .collect();
    for _ in 0..rounds.max(1) {
        if progress.should_stop() {
            break;
        }
        let now = |cell: usize| match settled[cell] {
            true => Vec::new(),
            false => centres[cell].clone(),
        };
        let labels = cells.nearest(&now, progress)?;
        // Closures shared by several threads borrow only the fields that they read.
        let (rows, places) = (&cells.rows, &cells.places);
        let moved = centres.par_iter_mut().enumerate();
        moved
            .filter(|(cell, _)| !settled[*cell])
            .for_each(|(cell, centres)| {
                let own = with_labels(&rows[cell], &labels[places[cell].clone()]);
                move_centres(vectors, own, centres);
            });
    }
    Ok(centres)
}

/// Moves each centre to the mean of its vectors, and those without vectors to the vectors with the largest errors.
fn move_centres(
    vectors: Vectors<'_>,
    own: impl Iterator<Item = (u32, usize)> + Clone,
    centres: &mut [f32],
) {
    let dim = vectors.dim;
    let count = centres.len() / dim;
    let mut sums = vec![0.0f64; count * dim];
    let mut mass = vec![0.0f64; count];
    for (row, label) in own.clone() {
        let weight = f64::from(vectors.weights[row as usize]);
        mass[label] += weight;
        let values = vectors.row(row);
        for (sum, &value) in sums[label * dim..][..dim].iter_mut().zip(values) {
            *sum += weight * f64::from(value);
        }
    }
    let idle: Vec<usize> = (0..count).filter(|&k| mass[k] == 0.0).collect();
    let mut worst: Vec<(f32, u32)> = Vec::new();
    if !idle.is_empty() {
        let error = |(row, label): (u32, usize)| {
            let centre = &centres[label * dim..][..dim];
            (
                vectors.distance(row, centre) * vectors.weights[row as usize],
                row,
            )
        };
        worst = own.map(error).collect();
        worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    for k in (0..count).filter(|&k| mass[k] > 0.0) {
        for d in 0..dim {
            centres[k * dim + d] = (sums[k * dim + d] / mass[k]) as f32;
        }
    }
    for (k, (_, row)) in idle.into_iter().zip(worst) {
        centres[k * dim..][..dim].copy_from_slice(vectors.row(row));
    }
}

/// Chooses distant initial centres (k-means++, Arthur and Vassilvitskii 2007): each further one is drawn by the squared
/// distance to those before, from a fixed random sequence.
fn seeds(vectors: Vectors<'_>, rows: &[u32], wanted: usize) -> Vec<f32> {
    let (dim, count) = (vectors.dim, rows.len());
    // Column by column, so that the loop runs along all vectors.
    let mut columns = vec![0.0f32; count * dim];
    for (i, &row) in rows.iter().enumerate() {
        for (d, &value) in vectors.row(row).iter().enumerate() {
            columns[d * count + i] = value;
        }
    }
    let weights: Vec<f32> = rows.iter().map(|&r| vectors.weights[r as usize]).collect();
    let mut errors = vec![f32::INFINITY; count];
    let mut distances = vec![0.0f32; count];
    let mut centres = Vec::with_capacity(wanted * dim);
    let mut next = count / 2;
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..wanted {
        let seed = vectors.row(rows[next]);
        centres.extend_from_slice(seed);
        distances.fill(0.0);
        for (column, &at) in columns.chunks_exact(count).zip(seed) {
            for (distance, &value) in distances.iter_mut().zip(column) {
                *distance += (value - at) * (value - at);
            }
        }
        let mut all = 0.0f64;
        for ((error, &distance), weight) in errors.iter_mut().zip(&distances).zip(&weights) {
            *error = error.min(distance);
            all += f64::from(*error * weight);
        }
        if all == 0.0 {
            // Each vector is a centre already.
            break;
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut left = (state >> 11) as f64 / (1u64 << 53) as f64 * all;
        let found = errors.iter().zip(&weights).position(|(error, weight)| {
            left -= f64::from(*error * weight);
            left < 0.0
        });
        next = found.unwrap_or(count - 1);
    }
    centres
}
