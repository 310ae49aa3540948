//! Pinhole: u = x / z, v = y / z; centre = (fx u + cx, fy v + cy). GPU version: shaders/shared/pinhole.wgsl.

use super::projector::{CameraV, Projector, Shape, Slopes};
use crate::frame::CameraF32;
use crate::simd::{M, Splat, V, V3, dot, each};
use pulp::Simd;

/// Perspective camera without distortion.
#[derive(Debug, Clone, Copy)]
pub struct Pinhole;

/// Computes the slopes of points; those of lanes that are not `valid` are finite.
#[inline(always)]
pub fn slopes<S: Simd, C: Projector>(
    s: S,
    camera: &CameraV<S, C>,
    point: V3<S>,
    valid: M<S>,
) -> Slopes<S> {
    let z = valid.select(point[2], s.k(1.0));
    let inverse_z = s.k(1.0) / z;
    let uv = [point[0] * inverse_z, point[1] * inverse_z];
    let clamped = each!(2, |a| uv[a]
        .max(camera.jacobian_min[a])
        .min(camera.jacobian_max[a]));
    Slopes {
        inverse_z,
        uv,
        clamped,
    }
}

impl Projector for Pinhole {
    type Constants<S: Simd> = ();

    #[inline(always)]
    fn constants<S: Simd>(_: S, _: &CameraF32) {}

    #[inline(always)]
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S> {
        let slopes = slopes(s, camera, point, valid);
        let Slopes {
            inverse_z,
            uv,
            clamped,
        } = slopes;
        let mean2d = each!(2, |a| uv[a].mul_add(camera.focal[a], camera.principal[a]));
        let t = each!(2, |a| {
            let factor = camera.focal[a] * inverse_z;
            each!(3, |j| {
                clamped[a].neg_mul_add(camera.rotation[2][j], camera.rotation[a][j]) * factor
            })
        });
        Shape {
            valid,
            mean2d,
            t,
            slopes,
        }
    }

    #[inline(always)]
    fn backward<S: Simd>(
        s: S,
        _: V3<S>,
        p: &Shape<S>,
        camera: &CameraV<S, Self>,
        d_mean2d: [V<S>; 2],
        dt: &[V3<S>; 2],
    ) -> (V3<S>, V3<S>) {
        // T row a = focal_a / z (R_a - uv_a R_2).
        let mut duv = each!(2, |a| d_mean2d[a] * camera.focal[a]);
        let mut dz = -(dot(p.t[0], dt[0]) + dot(p.t[1], dt[1])) * p.slopes.inverse_z;
        let mut through_jacobian = [s.k(0.0); 2];
        for a in 0..2 {
            let factor = camera.focal[a] * p.slopes.inverse_z;
            let d = -(dot(camera.rotation[2], dt[a]) * factor);
            // A clamped position of the Jacobian has no derivative.
            let inside = p.slopes.uv[a]
                .ge(camera.jacobian_min[a])
                .and(camera.jacobian_max[a].ge(p.slopes.uv[a]));
            through_jacobian[a] = inside.select(d, s.k(0.0));
            duv[a] += through_jacobian[a];
        }
        dz += -(duv[0] * p.slopes.uv[0] + duv[1] * p.slopes.uv[1]) * p.slopes.inverse_z;
        let point = [duv[0] * p.slopes.inverse_z, duv[1] * p.slopes.inverse_z, dz];
        (point, rotation_of_jacobian(p, camera, dt))
    }
}

/// Computes the derivative of the loss by a small rotation of the camera's axes at a fixed
/// camera-space point: R_i' = R_i + (omega x R)_i in `T`'s rows. The caller adds the point's own
/// motion.
#[inline(always)]
fn rotation_of_jacobian<S: Simd>(
    p: &Shape<S>,
    camera: &CameraV<S, Pinhole>,
    dt: &[V3<S>; 2],
) -> V3<S> {
    // dL/dR by rows: T_a = f_a / z (R_a - uv_a R_2).
    let f = each!(2, |a| camera.focal[a] * p.slopes.inverse_z);
    let d0 = each!(3, |j| dt[0][j] * f[0]);
    let d1 = each!(3, |j| dt[1][j] * f[1]);
    let d2 = each!(3, |j| -(p.slopes.clamped[0] * d0[j]
        + p.slopes.clamped[1] * d1[j]));
    // (omega x R) row 0 = omega_y R_2 - omega_z R_1, and cyclic.
    let r = camera.rotation;
    [
        dot(d2, r[1]) - dot(d1, r[2]),
        dot(d0, r[2]) - dot(d2, r[0]),
        dot(d1, r[0]) - dot(d0, r[1]),
    ]
}
