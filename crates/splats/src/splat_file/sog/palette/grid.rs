//! Vectors of a cell as small whole numbers: a grid around the cell's mean.
//!
//! 1. The grid's middle is the mean of the cell's vectors. Half its side, R, covers nearly all of them: four times the
//!    99.9th percentile of the components' differences from the mean, or the largest difference if that is less. So a
//!    few distant vectors do not reduce the precision of the others.
//! 2. A vector's component is at most L / 2 steps from the middle, a centre's at most L = [`limit`], because centres of
//!    neighbouring cells may be outside. Components further away are clamped to the end.

use super::Vectors;
use crate::splat_file::nearest::limit;
use dapple_base::quantiles;

/// Share of components within a fourth of the grid, and maximum number of sampled components.
const WITHIN: f64 = 0.999;
const LOOKED_AT: usize = 1 << 16;

/// Position of a cell's grid.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    middle: Vec<f32>,
    /// Steps per unit.
    scale: f32,
    limit: i16,
}

impl Grid {
    pub(super) fn around(vectors: Vectors<'_>, rows: &[u32]) -> Self {
        let dim = vectors.dim;
        let mut sums = vec![0.0f64; dim];
        for &row in rows {
            for (sum, &value) in sums.iter_mut().zip(vectors.row(row)) {
                *sum += f64::from(value);
            }
        }
        let many = rows.len().max(1) as f64;
        let middle: Vec<f32> = sums.iter().map(|sum| (sum / many) as f32).collect();
        let away = |&row: &u32| {
            let pairs = vectors.row(row).iter().zip(&middle);
            pairs.map(|(value, middle)| (value - middle).abs())
        };
        let largest = rows.iter().flat_map(away).fold(0.0, f32::max);
        let step = (rows.len() * dim).div_ceil(LOOKED_AT).max(1);
        let some = rows.iter().step_by(step).flat_map(away).collect();
        let usual = quantiles::quantile(some, WITHIN).unwrap_or_default();
        let side = match usual > 0.0 {
            true => largest.min(4.0 * usual),
            false => largest,
        };
        let limit = limit(dim);
        let scale = f32::from(limit / 2) / side;
        Self {
            middle,
            scale: if scale.is_finite() { scale } else { 0.0 },
            limit,
        }
    }

    /// Appends a vector's numbers and the padding.
    pub(super) fn put_vector(&self, vector: &[f32], stride: usize, to: &mut Vec<i16>) {
        self.put(vector, stride, self.limit / 2, to);
    }

    /// Appends the grid coordinates of a centre.
    pub(super) fn put_centre(&self, centre: &[f32], stride: usize, to: &mut Vec<i16>) {
        self.put(centre, stride, self.limit, to);
    }

    fn put(&self, vector: &[f32], stride: usize, most: i16, to: &mut Vec<i16>) {
        let end = to.len() + stride;
        let most = f32::from(most);
        to.extend(vector.iter().zip(&self.middle).map(|(value, middle)| {
            let steps = (value - middle) * self.scale;
            if steps.is_nan() {
                return 0;
            }
            // Rounded to the nearest, by truncation of a positive number.
            (steps.clamp(-most, most) + 16_384.5) as i16 - 16_384
        }));
        to.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_far_away_costs_the_others_no_precision() {
        let mut values: Vec<f32> = (0..9 * 3000).map(|i| (i % 101) as f32 * 0.01).collect();
        values[9] = 1e6;
        let vectors = Vectors {
            values: &values,
            dim: 9,
            weights: &[1.0; 3000],
        };
        let rows: Vec<u32> = (0..3000).collect();
        let grid = Grid::around(vectors, &rows);
        let numbers = |row: u32| {
            let mut to = Vec::new();
            grid.put_vector(vectors.row(row), 12, &mut to);
            to
        };
        let (first, far) = (numbers(0), numbers(1));
        assert_eq!(far[0], limit(9) / 2);
        assert!(first[9..] == [0; 3] && first.len() == 12);
        // 0.08 apart within a grid of some 2 x 2.
        assert!(first[8] - first[0] > 8, "{first:?}");
    }

    #[test]
    fn vectors_that_are_all_alike_or_no_numbers_are_zeros() {
        for value in [0.25, f32::NAN, f32::INFINITY] {
            let values = [value; 90];
            let vectors = Vectors {
                values: &values,
                dim: 9,
                weights: &[1.0; 10],
            };
            let grid = Grid::around(vectors, &[0, 1, 2]);
            let mut to = Vec::new();
            grid.put_vector(vectors.row(0), 12, &mut to);
            assert_eq!(to, [0; 12]);
        }
    }
}
