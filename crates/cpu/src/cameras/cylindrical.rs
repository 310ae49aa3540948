//! Cylindrical panorama: longitude across, the slope of the height down. Formulas: [`dapple_engine::camera_model`]. GPU
//! version: shaders/shared/cylindrical.wgsl. Reference: panoramas/cylindrical.rs.
//!
//! 1. A camera that turns to each longitude is a pinhole: depth h, slope t = y / h, clamped to t' in the rows of J.
//! 2. Rows of J: `focal_x e_lon / h` and `focal_y (e_y - t' e_h) / h`. T = J R.
//! 3. Backward, with G the derivatives by the rows of J: the frame turns with the longitude, and h and t move.

use super::frames::{atan2, shape, shown, to_world};
use super::projector::{CameraV, Projector, Shape};
use crate::frame::CameraF32;
use crate::simd::{M, Splat, V, V3, cross, dot, each};
use pulp::Simd;

/// Cylindrical panorama.
#[derive(Debug, Clone, Copy)]
pub struct Cylindrical;

/// Frame of a point.
struct Frame<S: Simd> {
    e_lon: V3<S>,
    /// Direction of the longitude, level.
    e_h: V3<S>,
    inverse_h: V<S>,
    /// y / h.
    slope: V<S>,
    /// The slope of step 1.
    clamped: V<S>,
}

impl<S: Simd> Frame<S> {
    #[inline(always)]
    fn new(s: S, point: V3<S>, camera: &CameraV<S, Cylindrical>) -> Self {
        let [x, y, z] = point;
        let h = Cylindrical::depth(point);
        let inverse_h = s.k(1.0) / h.max(s.k(f32::MIN_POSITIVE));
        let (sin, cos, zero) = (x * inverse_h, z * inverse_h, s.k(0.0));
        let slope = y * inverse_h;
        Self {
            e_lon: [cos, zero, -sin],
            e_h: [sin, zero, cos],
            inverse_h,
            slope,
            clamped: slope
                .max(camera.jacobian_min[1])
                .min(camera.jacobian_max[1]),
        }
    }

    /// Returns `e_y - slope e_h`.
    #[inline(always)]
    fn e_down(&self, s: S, slope: V<S>) -> V3<S> {
        [-(slope * self.e_h[0]), s.k(1.0), -(slope * self.e_h[2])]
    }

    /// Returns the rows of J.
    #[inline(always)]
    fn jacobian(&self, s: S, focal: [V<S>; 2]) -> [V3<S>; 2] {
        let (across, down) = (focal[0] * self.inverse_h, focal[1] * self.inverse_h);
        let e_down = self.e_down(s, self.clamped);
        [
            each!(3, |i| self.e_lon[i] * across),
            each!(3, |i| e_down[i] * down),
        ]
    }
}

impl Projector for Cylindrical {
    type Constants<S: Simd> = ();

    #[inline(always)]
    fn constants<S: Simd>(_: S, _: &CameraF32) {}

    #[inline(always)]
    fn depth<S: Simd>(point: V3<S>) -> V<S> {
        point[0].mul_add(point[0], point[2] * point[2]).sqrt()
    }

    #[inline(always)]
    fn depth_row<S: Simd>(camera: &CameraV<S, Self>, point: V3<S>) -> V3<S> {
        let s = camera.focal[0].0;
        let inverse = s.k(1.0) / Self::depth(point);
        to_world(camera, [point[0] * inverse, s.k(0.0), point[2] * inverse])
    }

    #[inline(always)]
    fn add_depth<S: Simd>(point: V3<S>, by_depth: V<S>, d_point: &mut V3<S>) {
        let share = by_depth / Self::depth(point);
        for i in [0, 2] {
            d_point[i] = share.mul_add(point[i], d_point[i]);
        }
    }

    #[inline(always)]
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S> {
        let point = shown(s, point, valid);
        let frame = Frame::new(s, point, camera);
        let place = [atan2(s, point[0], point[2]), frame.slope];
        let j = frame.jacobian(s, camera.focal);
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
        let f = Frame::new(s, point, camera);
        let [ju, jv] = f.jacobian(s, camera.focal);
        let [gu, gv] = each!(2, |a| each!(3, |k| dot(camera.rotation[k], dt[a])));
        let (across, down) = (camera.focal[0] * f.inverse_h, camera.focal[1] * f.inverse_h);
        // A clamped slope has no derivative in J.
        let is_inside = f
            .slope
            .ge(camera.jacobian_min[1])
            .and(camera.jacobian_max[1].ge(f.slope));
        let tilt = is_inside.select(-(dot(gv, f.e_h) * down), s.k(0.0));
        // Factors of e_lon, e_h and the derivative of the slope, times h.
        let lon = d_mean2d[0].mul_add(
            camera.focal[0],
            -(dot(gu, f.e_h) * across) - f.clamped * dot(gv, f.e_lon) * down,
        );
        let level = -(dot(gu, f.e_lon) * across) - dot(gv, f.e_down(s, f.clamped)) * down;
        let slope = d_mean2d[1].mul_add(camera.focal[1], tilt);
        let e_slope = f.e_down(s, f.slope);
        let point = each!(3, |i| {
            let turn = lon.mul_add(f.e_lon[i], level * f.e_h[i]);
            slope.mul_add(e_slope[i], turn) * f.inverse_h
        });
        // T turns with the camera: the sum of G x J over the rows.
        let (tu, tv) = (cross(gu, ju), cross(gv, jv));
        (point, each!(3, |i| tu[i] + tv[i]))
    }
}
