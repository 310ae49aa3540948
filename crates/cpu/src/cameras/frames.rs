//! Functions of the camera models of panoramas.

use super::projector::{CameraV, Projector, Shape, Slopes};
use crate::simd::{M, Splat, V, V3, each};
use pulp::Simd;
use std::f32::consts::{FRAC_PI_2, PI};

/// Terms of the series of the arctangent: at the largest tangent of half an angle, 0.414, right to 1e-9.
const TERMS: usize = 10;

/// Returns `atan2(y, x)`, 0 at (0, 0): right to 2e-7 in all directions, on every CPU. The arctangent of the ratio of the
/// smaller to the larger leg is twice that of the tangent of half the angle, from a series.
#[inline(always)]
pub(super) fn atan2<S: Simd>(s: S, y: V<S>, x: V<S>) -> V<S> {
    let (zero, one) = (s.k(0.0), s.k(1.0));
    let (a, b) = (y.abs(), x.abs());
    let ratio = a.min(b) / a.max(b).max(s.k(f32::MIN_POSITIVE));
    let half = ratio / (one + ratio.mul_add(ratio, one).sqrt());
    let square = half * half;
    let mut sum = zero;
    for n in (0..TERMS).rev() {
        let sign = if n % 2 == 0 { 1.0 } else { -1.0 };
        sum = sum.mul_add(square, s.k(sign / (2 * n + 1) as f32));
    }
    let angle = s.k(2.0) * half * sum;
    let angle = b.lt(a).select(s.k(FRAC_PI_2) - angle, angle);
    let angle = x.lt(zero).select(s.k(PI) - angle, angle);
    y.lt(zero).select(-angle, angle)
}

/// Returns a row in the world of a row in camera coordinates.
#[inline(always)]
pub(super) fn to_world<S: Simd, C: Projector>(camera: &CameraV<S, C>, row: V3<S>) -> V3<S> {
    let r = &camera.rotation;
    each!(3, |j| row[0]
        .mul_add(r[0][j], row[1].mul_add(r[1][j], row[2] * r[2][j])))
}

/// Returns the points that are valid; (0, 0, 1) for others.
#[inline(always)]
pub(super) fn shown<S: Simd>(s: S, point: V3<S>, valid: M<S>) -> V3<S> {
    let (zero, one) = (s.k(0.0), s.k(1.0));
    [
        valid.select(point[0], zero),
        valid.select(point[1], zero),
        valid.select(point[2], one),
    ]
}

/// Returns the shape of a point with this place (longitude and height) and these rows of J. Panoramas have no slopes.
#[inline(always)]
pub(super) fn shape<S: Simd, C: Projector>(
    s: S,
    camera: &CameraV<S, C>,
    valid: M<S>,
    (place, j): ([V<S>; 2], [V3<S>; 2]),
) -> Shape<S> {
    let (zero, one) = (s.k(0.0), s.k(1.0));
    Shape {
        valid,
        mean2d: each!(2, |a| place[a]
            .mul_add(camera.focal[a], camera.principal[a])),
        t: each!(2, |a| to_world(camera, j[a])),
        slopes: Slopes {
            inverse_z: one,
            uv: [zero; 2],
            clamped: [zero; 2],
        },
    }
}
