//! Positions that a PLY file stores in doubles.

use super::table::{Column, Table};
use crate::{Point, origin};
use dapple_base::quantiles::median;
use glam::DVec3;

/// Maximum number of rows from which a middle is computed.
const SAMPLE: usize = 4096;

/// Computes the local origin of positions in these three columns; zero if they are close enough to zero.
pub(super) fn local_origin(table: &Table<'_>, columns: &[&Column]) -> DVec3 {
    let step = table.rows().div_ceil(SAMPLE).max(1);
    let mut sample = Vec::new();
    for row in (0..table.rows()).step_by(step) {
        let mut position = DVec3::ZERO;
        for (axis, column) in columns.iter().take(3).enumerate() {
            table.gather_wide(column, row, 1, |_, value| position[axis] = value);
        }
        if position.is_finite() {
            sample.push(position);
        }
    }
    let axis = |k: usize| median(sample.iter().map(|p| p[k]).collect());
    let (Some(x), Some(y), Some(z)) = (axis(0), axis(1), axis(2)) else {
        return DVec3::ZERO;
    };
    let middle = DVec3::new(x, y, z);
    let size = median(sample.iter().map(|p| p.distance(middle)).collect());
    origin::local_origin(middle, size.unwrap_or(0.0))
}

/// Computes the rounding remainders of the positions, see [`origin::remainder`]; empty if the file holds no
/// doubles.
pub(super) fn remainders(table: &Table<'_>, points: &[Point]) -> Vec<[f32; 3]> {
    let Ok(columns) = table.require(&["x", "y", "z"], "") else {
        return Vec::new();
    };
    if !columns.iter().any(|column| column.is_wide()) {
        return Vec::new();
    }
    let mut exact = vec![[0.0; 3]; table.rows()];
    for (axis, column) in columns.iter().enumerate() {
        table.gather_wide(column, 0, table.rows(), |i, value| exact[i][axis] = value);
    }
    // Points without a position are already removed.
    let has_position = |exact: &[f64; 3]| exact.iter().all(|&value| (value as f32).is_finite());
    let kept = exact.into_iter().filter(has_position).zip(points);
    kept.map(|(exact, point)| origin::remainder(exact, point.position))
        .collect()
}

/// Moves points that are relative to `origin` into the frame of `origin`.
pub(super) fn count_from_zero(points: &mut [Point], rest: &mut Vec<[f32; 3]>, origin: DVec3) {
    rest.resize(points.len(), [0.0; 3]);
    for (point, rest) in points.iter_mut().zip(rest) {
        let exact = (origin::position(point, Some(rest)) + origin).to_array();
        point.position = exact.map(|value| value as f32);
        *rest = origin::remainder(exact, point.position);
    }
}
