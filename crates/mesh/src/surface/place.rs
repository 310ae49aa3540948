//! Place of a vertex in its cell.
//!
//! A vertex is at the mean of the zeros on the edges of its cell, moved onto the zero of the trilinear interpolation.
//! If the normals at the zeros differ, the vertex is at the least sum of squared distances to the planes through the
//! zeros instead (dual contouring, Ju et al. 2002), so that edges and corners stay sharp.

use super::cells::corners_of;
use super::window::{Window, corner};
use dapple_scene::algebra::eigen;
use glam::{DVec3, IVec3, Vec3};

/// Steps from the mean of the zeros towards the zero of the cell.
const STEPS: usize = 2;

/// Least and largest coordinate of a vertex in its cell.
const RANGE: [f32; 2] = [0.02, 0.98];

/// Least eigenvalue of the mean product of the normals with themselves for which the vertex is on an edge or a corner:
/// about that of normals that differ by 45 degrees.
const LEAST_SPREAD: f64 = 0.15;

/// Square of the bend below which the slopes of both sides count alike, truncations.
const FLAT: f32 = 1e-6;

/// Most distance from the cell of a place that is moved to the side of the cell, cells. Farther places belong to the edge
/// of another cell.
const MOST_BEYOND: f64 = 1.0;

/// Zero on an edge of a cell.
struct Zero {
    place: Vec3,
    normal: Vec3,
}

/// Returns the mean of the zeros on some edges of a cell, 0 to 1.
pub fn mean_of_zeros(values: &[f32; 8], is_of_row: impl Fn(usize) -> bool) -> Vec3 {
    let (mut sum, mut count) = (Vec3::ZERO, 0.0);
    for edge in (0..12).filter(|&edge| is_of_row(edge)) {
        sum += zero_on(values, edge).0;
        count += 1.0;
    }
    sum / count
}

/// Returns the place of the zero on an edge, and its part of the edge.
fn zero_on(values: &[f32; 8], edge: usize) -> (Vec3, f32) {
    let [low, high] = corners_of(edge);
    let along = values[low] / (values[low] - values[high]);
    let [from, to] = [low, high].map(|c| corner(c).as_vec3());
    (from.lerp(to, along), along)
}

/// Returns the place of the vertex of a cell, 0 to 1. `values`: those at the corners of the cell.
pub fn vertex(window: &Window, cell: IVec3, values: &[f32; 8]) -> Vec3 {
    let changes = |edge: &usize| {
        let [low, high] = corners_of(*edge);
        (values[low] < 0.0) != (values[high] < 0.0)
    };
    let zeros = (0..12).filter(changes).filter_map(|edge| {
        let (place, along) = zero_on(values, edge);
        let low = cell + corner(corners_of(edge)[0]);
        let normal = normal_at(window, low, edge / 4, along)?;
        Some(Zero { place, normal })
    });
    let zeros: Vec<Zero> = zeros.collect();
    if let Some(place) = feature(&zeros) {
        return place;
    }
    let mean = mean_of_zeros(values, |edge| changes(&edge));
    onto_zero(values, mean)
}

/// Moves a place in a cell onto the zero of the trilinear interpolation.
fn onto_zero(values: &[f32; 8], mut place: Vec3) -> Vec3 {
    for _ in 0..STEPS {
        let (mut value, mut slope) = (0.0, Vec3::ZERO);
        for (c, &v) in values.iter().enumerate() {
            let at = corner(c).as_vec3();
            let share = Vec3::ONE - (at - place).abs();
            let sign = 2.0 * at - 1.0;
            value += v * share.x * share.y * share.z;
            slope += v * sign * Vec3::new(share.y * share.z, share.x * share.z, share.x * share.y);
        }
        let square = slope.length_squared();
        if square <= 1e-12 {
            break;
        }
        let step = (slope * (value / square)).clamp_length_max(0.25);
        place = (place - step).clamp(Vec3::splat(RANGE[0]), Vec3::splat(RANGE[1]));
    }
    place
}

/// Returns the normal at the zero on the edge between a voxel and the next one along an axis.
///
/// Across the edge, the slope is that of the smoother side (essentially non-oscillatory differences, Harten et al.
/// 1987), so that it is not that of another face.
fn normal_at(window: &Window, low: IVec3, axis: usize, along: f32) -> Option<Vec3> {
    let unit = |axis: usize| IVec3::AXES[axis];
    let mut slope = Vec3::ZERO;
    slope[axis] = window.value(low + unit(axis)) - window.value(low);
    for across in [(axis + 1) % 3, (axis + 2) % 3] {
        let at = |offset: i32| {
            let voxel = low + unit(across) * offset;
            let (v, w) = (window.value(voxel), window.value(voxel + unit(axis)));
            v + (w - v) * along
        };
        let [a, b, c, d, e] = [-2, -1, 0, 1, 2].map(at);
        let (below, above) = (c - b, d - c);
        let (bend_below, bend_above) = ((c - 2.0 * b + a).abs(), (e - 2.0 * d + c).abs());
        slope[across] = match (below.is_nan(), above.is_nan()) {
            (true, true) => return None,
            (true, false) => above,
            (false, true) => below,
            _ if bend_above.is_nan() => below,
            _ if bend_below.is_nan() => above,
            _ => {
                let (p, q) = (
                    1.0 / (bend_below * bend_below + FLAT),
                    1.0 / (bend_above * bend_above + FLAT),
                );
                (p * below + q * above) / (p + q)
            }
        };
    }
    slope.try_normalize()
}

/// Returns the place of the least sum of squared distances to the planes of the zeros, as near as possible to their mean
/// (eigenvalues below [`LEAST_SPREAD`] are truncated); `None` if the planes are alike or the place is far outside the
/// cell.
fn feature(zeros: &[Zero]) -> Option<Vec3> {
    if zeros.len() < 3 {
        return None;
    }
    let count = zeros.len() as f64;
    let mean = zeros.iter().map(|zero| zero.place).sum::<Vec3>().as_dvec3() / count;
    let mut matrix = [[0.0; 3]; 3];
    let mut target = DVec3::ZERO;
    for zero in zeros {
        let (n, p) = (zero.normal.as_dvec3(), zero.place.as_dvec3() - mean);
        for (row, r) in matrix.iter_mut().zip(n.to_array()) {
            for (value, c) in row.iter_mut().zip(n.to_array()) {
                *value += r * c / count;
            }
        }
        target += n * (n.dot(p) / count);
    }
    let found = eigen(matrix);
    if found[1].0 < LEAST_SPREAD {
        return None;
    }
    let mut place = mean;
    for (value, vector) in found {
        let vector = DVec3::from(vector);
        if value >= LEAST_SPREAD {
            place += vector * (vector.dot(target) / value);
        }
    }
    let beyond = (-place).max(place - 1.0).max_element();
    if beyond > MOST_BEYOND {
        return None;
    }
    Some(
        place
            .as_vec3()
            .clamp(Vec3::splat(RANGE[0]), Vec3::splat(RANGE[1])),
    )
}
