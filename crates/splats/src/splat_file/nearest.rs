//! The nearest of many centres, for many rows: the slowest part of writing a palette. A GPU may compute it instead of
//! the CPU.
//!
//! 1. Rows and centres are small whole numbers, so that `f32` holds every sum below exactly: |x| <= L / 2 and |c| <= L
//!    in each of `dim` columns, with 2 dim L^2 <= 2^24. Then |c|^2 - 2 x.c has equal bits for any order of addition,
//!    with fused operations or without, on any device: labels are equal everywhere.
//! 2. Rows are in groups. Each group is compared with its own centres. Groups are loaded once, and their labels are
//!    computed many times, while centres move.
//! 3. [`OnCpu`] computes matrix products, block by block. `dapple_gpu::Nearest` does the same in workgroups.

use crate::{Progress, Result};
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows per block of products.
const BLOCK: usize = 128;

/// Columns are padded by zeros to a multiple of this number, which a GPU processes together.
pub const COLUMNS: usize = 12;

/// Rows of small numbers in groups.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// `[rows, stride]`, each at most [`limit`] / 2 in size; zeros beyond `dim`.
    pub values: Vec<i16>,
    /// Number of columns without padding.
    pub dim: usize,
    /// Rows of each group: consecutive, from the first row to the last.
    pub groups: Vec<Range<usize>>,
}

impl Rows {
    /// Returns the columns of a row, with padding.
    pub fn stride(&self) -> usize {
        self.dim.next_multiple_of(COLUMNS)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the largest number of a centre: 2 dim L^2 <= 2^24.
pub fn limit(dim: usize) -> i16 {
    let largest = ((1u64 << 23) / dim.max(1) as u64).isqrt();
    // Even, so that half of it is an integer.
    (largest.min(1 << 13) as i16) & !1
}

/// Implementation of the search for the nearest centres.
pub trait NearestCentres: fmt::Debug + Send + Sync {
    /// Loads rows for many calls of [`LoadedRows::nearest`].
    ///
    /// # Errors
    /// A device that does not open, has no memory left or fails.
    fn load(&self, rows: Rows) -> Result<Box<dyn LoadedRows + '_>>;
}

/// Centres of a group of rows by its number: `[centres, stride]`, each at most [`limit`] in size, fewer than 2^24
/// centres. A group without centres has the label 0 everywhere.
pub type CentresOf<'a> = &'a (dyn Fn(usize) -> Vec<i16> + Sync);

/// Rows that were loaded for the search.
pub trait LoadedRows: Send + Sync {
    /// Returns, for each row, the index of its nearest centre among those of its group, the first of equals. `progress`
    /// receives the number of finished rows. If `progress` requests a stop, the method stops and the labels are
    /// meaningless.
    ///
    /// # Errors
    /// A device that has no memory left or fails.
    fn nearest(&mut self, centres: CentresOf<'_>, progress: &dyn Progress) -> Result<Vec<u32>>;
}

/// Search on the CPU, on all cores.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnCpu;

impl NearestCentres for OnCpu {
    fn load(&self, rows: Rows) -> Result<Box<dyn LoadedRows + '_>> {
        Ok(Box::new(rows))
    }
}

impl LoadedRows for Rows {
    fn nearest(&mut self, centres: CentresOf<'_>, progress: &dyn Progress) -> Result<Vec<u32>> {
        let (stride, dim) = (self.stride(), self.dim);
        let of_groups: Vec<Vec<u32>> = self
            .groups
            .par_iter()
            .enumerate()
            .map(|(group, rows)| {
                if progress.should_stop() {
                    return vec![0; rows.len()];
                }
                let centres = floats(&centres(group), stride, dim);
                let values = &self.values[rows.start * stride..rows.end * stride];
                let blocks: Vec<Vec<u32>> = values
                    .par_chunks(BLOCK * stride)
                    .map(|block| of_block(&floats(block, stride, dim), &centres, dim))
                    .collect();
                progress.advance(rows.len() as u64);
                blocks.concat()
            })
            .collect();
        Ok(of_groups.concat())
    }
}

/// Converts to floats and removes the padding.
fn floats(values: &[i16], stride: usize, dim: usize) -> Vec<f32> {
    let rows = values.chunks_exact(stride);
    rows.flat_map(|row| row[..dim].iter().map(|&v| f32::from(v)))
        .collect()
}

fn of_block(block: &[f32], centres: &[f32], dim: usize) -> Vec<u32> {
    let (rows, count) = (block.len() / dim, centres.len() / dim);
    if count == 0 {
        return vec![0; rows];
    }
    let norms: Vec<f32> = centres
        .chunks_exact(dim)
        .map(|c| c.iter().map(|v| v * v).sum())
        .collect();
    let mut products = vec![0.0f32; rows * count];
    // SAFETY: `block` is [rows, dim], `centres` [count, dim] read as its transpose, `products` [rows, count], each with
    // the strides that are given.
    unsafe {
        matrixmultiply::sgemm(
            rows,
            dim,
            count,
            -2.0,
            block.as_ptr(),
            dim as isize,
            1,
            centres.as_ptr(),
            1,
            dim as isize,
            0.0,
            products.as_mut_ptr(),
            count as isize,
            1,
        );
    }
    let first_of_least = |products: &[f32]| {
        let mut best = (0u32, f32::INFINITY);
        for (k, (product, norm)) in products.iter().zip(&norms).enumerate() {
            let distance = product + norm;
            if distance < best.1 {
                best = (k as u32, distance);
            }
        }
        best.0
    };
    products.chunks_exact(count).map(first_of_least).collect()
}

/// Implementation of the search, a field of [`WriteOptions`](super::WriteOptions); the default is the CPU.
#[derive(Debug, Clone, Default)]
pub struct NearestBy(Option<Arc<dyn NearestCentres>>);

impl NearestBy {
    /// Selects this implementation. Files are byte-identical for all implementations.
    pub fn new(by: Arc<dyn NearestCentres>) -> Self {
        Self(Some(by))
    }

    /// Returns the implementation for an amount of work. A small amount runs on the CPU, which takes less time than
    /// opening a device.
    pub(super) fn get(&self, is_much: bool) -> &dyn NearestCentres {
        match &self.0 {
            Some(by) if is_much => by.as_ref(),
            _ => &OnCpu,
        }
    }
}

impl PartialEq for NearestBy {
    /// Returns true if both are the same object.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::NoProgress;

    /// Returns numbers up to `most` in size.
    fn noise(count: usize, most: i16, mut state: u32) -> Vec<i16> {
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) % (2 * most as u32 + 1)) as i16 - most
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn padded(values: &[i16], dim: usize, stride: usize) -> Vec<i16> {
        let mut out = Vec::new();
        for row in values.chunks_exact(dim) {
            out.extend_from_slice(row);
            out.resize(out.len() + stride - dim, 0);
        }
        out
    }

    #[test]
    fn the_first_of_the_nearest_is_found_with_whole_numbers() {
        for dim in [9, 24, 45] {
            let (rows, counts) = ([300usize, 1, 77], [130usize, 0, 700]);
            let all = rows.iter().sum::<usize>();
            let points = noise(all * dim, limit(dim) / 2, 1);
            // Few values, and every centre twice, so that many distances are equal.
            let centres: Vec<Vec<i16>> = counts
                .map(|n| noise(n / 2 * dim, limit(dim), 7).repeat(2))
                .into();
            let mut loaded = Rows {
                dim,
                groups: vec![0..300, 300..301, 301..378],
                ..Rows::default()
            };
            let stride = loaded.stride();
            loaded.values = padded(&points, dim, stride);
            let of = |group: usize| padded(&centres[group], dim, stride);
            let labels = loaded.nearest(&of, &NoProgress).unwrap();
            let mut row = 0;
            for (group, &many) in rows.iter().enumerate() {
                for _ in 0..many {
                    let point = &points[row * dim..][..dim];
                    let distance = |c: &[i16]| -> i64 {
                        let pairs = point.iter().zip(c);
                        pairs
                            .map(|(&a, &b)| (i64::from(a) - i64::from(b)).pow(2))
                            .sum()
                    };
                    let nearest = centres[group].chunks_exact(dim).enumerate();
                    let expected = nearest.min_by_key(|(_, c)| distance(c)).map_or(0, |n| n.0);
                    assert_eq!(labels[row] as usize, expected, "row {row} of {dim}");
                    row += 1;
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_are_whole() {
        for dim in 1..=64 {
            let largest = u64::from(limit(dim).unsigned_abs());
            assert!(2 * dim as u64 * largest * largest <= 1 << 24 && largest >= 2);
        }
        assert_eq!(limit(45), 430);
    }
}
