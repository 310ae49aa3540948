//! Panorama of all directions: longitude across, latitude down. Formulas: [`dapple_engine::camera_model`]. GPU version:
//! shaders/shared/equirectangular.wgsl. Reference: panoramas/equirectangular.rs.
//!
//! 1. Angles: [`atan2`].
//! 2. Rows of J: `focal_x e_lon / b` and `focal_y e_lat / r`, b = max(h, c r). T = J R.
//! 3. Backward, with G the derivatives by the rows of J: the frame turns with longitude and latitude, and b and r move.

use super::frames::{atan2, shape, shown, to_world};
use super::projector::{CameraV, Projector, Shape};
use crate::frame::CameraF32;
use crate::simd::{M, Splat, V, V3, cross, dot, each};
use dapple_engine::camera_model::least_cosine;
use pulp::Simd;

/// Panorama of all directions.
#[derive(Debug, Clone, Copy)]
pub struct Equirectangular;

/// Frame of a point: unit vectors, and the lengths of step 2.
struct Frame<S: Simd> {
    e_lon: V3<S>,
    e_lat: V3<S>,
    e_r: V3<S>,
    /// Direction of the longitude, level.
    e_h: V3<S>,
    h: V<S>,
    /// Sine of the latitude.
    sin: V<S>,
    inverse_r: V<S>,
    inverse_b: V<S>,
    /// Derivative of b by the point.
    b_gradient: V3<S>,
}

impl<S: Simd> Frame<S> {
    #[inline(always)]
    fn new(s: S, point: V3<S>, least_cosine: V<S>) -> Self {
        let (zero, one) = (s.k(0.0), s.k(1.0));
        let [x, y, z] = point;
        let h2 = x.mul_add(x, z * z);
        let r = y.mul_add(y, h2).sqrt();
        let h = h2.sqrt();
        let inverse_r = one / r.max(s.k(f32::MIN_POSITIVE));
        let is_level = s.k(f32::MIN_POSITIVE).lt(h);
        let inverse_h = one / h.max(s.k(f32::MIN_POSITIVE));
        let (sin_lon, cos_lon) = (
            is_level.select(x * inverse_h, zero),
            is_level.select(z * inverse_h, one),
        );
        let (sin, cos) = (y * inverse_r, h * inverse_r);
        let bound = least_cosine * r;
        let e_r = each!(3, |i| point[i] * inverse_r);
        let e_h = [sin_lon, zero, cos_lon];
        let is_free = bound.lt(h);
        Self {
            e_lon: [cos_lon, zero, -sin_lon],
            e_lat: [-(sin * sin_lon), cos, -(sin * cos_lon)],
            e_r,
            e_h,
            h,
            sin,
            inverse_r,
            inverse_b: one / h.max(bound).max(s.k(f32::MIN_POSITIVE)),
            b_gradient: each!(3, |i| is_free.select(e_h[i], least_cosine * e_r[i])),
        }
    }

    /// Returns the rows of J.
    #[inline(always)]
    fn jacobian(&self, focal: [V<S>; 2]) -> [V3<S>; 2] {
        let (across, down) = (focal[0] * self.inverse_b, focal[1] * self.inverse_r);
        [
            each!(3, |i| self.e_lon[i] * across),
            each!(3, |i| self.e_lat[i] * down),
        ]
    }
}

impl Projector for Equirectangular {
    /// The least cosine.
    type Constants<S: Simd> = V<S>;

    #[inline(always)]
    fn constants<S: Simd>(s: S, camera: &CameraF32) -> V<S> {
        s.k(least_cosine(camera.focal[1]))
    }

    #[inline(always)]
    fn depth<S: Simd>(point: V3<S>) -> V<S> {
        dot(point, point).sqrt()
    }

    #[inline(always)]
    fn depth_row<S: Simd>(camera: &CameraV<S, Self>, point: V3<S>) -> V3<S> {
        let inverse = camera.focal[0].0.k(1.0) / Self::depth(point);
        to_world(camera, each!(3, |i| point[i] * inverse))
    }

    #[inline(always)]
    fn add_depth<S: Simd>(point: V3<S>, by_depth: V<S>, d_point: &mut V3<S>) {
        let share = by_depth / Self::depth(point);
        for i in 0..3 {
            d_point[i] = share.mul_add(point[i], d_point[i]);
        }
    }

    #[inline(always)]
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S> {
        let point = shown(s, point, valid);
        let frame = Frame::new(s, point, camera.model);
        let place = [atan2(s, point[0], point[2]), atan2(s, point[1], frame.h)];
        let j = frame.jacobian(camera.focal);
        shape(s, camera, valid, (place, j))
    }

    #[inline(always)]
    fn backward<S: Simd>(
        s: S,
        point: V3<S>,
        _: &Shape<S>,
        camera: &CameraV<S, Self>,
        d_mean2d: [V<S>; 2],
        dt: &[V3<S>; 2],
    ) -> (V3<S>, V3<S>) {
        let f = Frame::new(s, point, camera.model);
        let [ju, jv] = f.jacobian(camera.focal);
        let [gu, gv] = each!(2, |a| each!(3, |k| dot(camera.rotation[k], dt[a])));
        // Factors of e_lon, e_lat, e_r and the derivative of b.
        let across = camera.focal[0] * f.inverse_b * f.inverse_b;
        let down = camera.focal[1] * f.inverse_r;
        let lon = -(dot(gu, f.e_h) * across) - down * f.sin * dot(gv, f.e_lon) * f.inverse_b;
        let lat = -(dot(gv, f.e_r) * down * f.inverse_r);
        let radial = -(dot(gv, f.e_lat) * down * f.inverse_r);
        let bound = -(dot(gu, f.e_lon) * across);
        let point = each!(3, |i| {
            let centre = d_mean2d[0].mul_add(ju[i], d_mean2d[1] * jv[i]);
            let turn = lon.mul_add(f.e_lon[i], lat * f.e_lat[i]);
            let stretch = radial.mul_add(f.e_r[i], bound * f.b_gradient[i]);
            centre + (turn + stretch)
        });
        // T turns with the camera: the sum of G x J over the rows.
        let (tu, tv) = (cross(gu, ju), cross(gv, jv));
        (point, each!(3, |i| tu[i] + tv[i]))
    }
}
