//! Projection of Gaussians to the image, forward and backward, for up to 16 at a time.
//!
//! Forward, after EWA splatting (Zwicker et al. 2001) and 3DGS (Kerbl et al. 2023):
//! 1. p = R (m - c), c in two floats; u = p.x / p.z, v = p.y / p.z; centre = (fx u + cx, fy v + cy).
//! 2. M = rotation(q) diag(exp(log scales)), so that the covariance is M M^T.
//! 3. T = J R with J the Jacobian of the projection, u and v clamped to the Jacobian's range.
//! 4. U = T M; cov2d = U U^T + dilation. Its determinant is |U0 x U1|^2 + dilation (|U0|^2 +
//!    |U1|^2) + dilation^2 (Lagrange's identity), which does not cancel for needles.
//! 5. conic = cov2d^-1.
//!
//! The last part of step 1 and step 3 are those of a pinhole. [`crate::cameras`] has them for each camera
//! model. With `ANTIALIAS`, [`crate::antialias`] filters between steps 2 and 3 and after step 4.
//!
//! The backward pass is the chain rule through the same steps; `dapple_reference` has it in f64.

use crate::antialias::{self, Filters};
use crate::blocks::component;
use crate::cameras::{CameraV, Projector, Shape};
use crate::simd::{M, Row, Splat, V, V3, cross, dot, each};
use pulp::Simd;

/// Returns the columns of a 3x3 matrix given by rows.
#[inline(always)]
fn transposed<S: Simd>(m: [V3<S>; 3]) -> [V3<S>; 3] {
    each!(3, |j| [m[0][j], m[1][j], m[2][j]])
}

/// Intermediate results of the forward projection of a vector of Gaussians.
#[derive(Clone, Copy)]
pub struct Projection<S: Simd> {
    /// Centres, world.
    pub mean: V3<S>,
    /// Centres, camera.
    pub point: V3<S>,
    /// Centres on the image, and the rows of T of step 3.
    pub shape: Shape<S>,
    /// Inverse of `cov2d`: xx, xy, yy.
    pub conic: V3<S>,
    /// Determinant of `conic`.
    pub inverse_determinant: V<S>,
    /// Diagonal of the 2D covariance.
    pub variance: [V<S>; 2],
    /// Opacity.
    pub opacity: V<S>,
    /// Lanes with a Gaussian that the camera shows and with finite parameters.
    pub valid: M<S>,
    /// Standard deviations, filtered if anti-aliased.
    pub scales: V3<S>,
    quat: [V<S>; 4],
    inverse_norm: V<S>,
    /// Rotation of the Gaussian, by rows.
    pub rotation: [V3<S>; 3],
    /// M of step 2, by rows.
    pub m: [V3<S>; 3],
    /// Rows of U of step 4.
    pub u: [V3<S>; 2],
    filters: Filters<S>,
}

/// Gradients by the inputs of `blend` and by the screen.
#[derive(Clone, Copy)]
pub struct ScreenGradient<S: Simd> {
    /// Gradient by the centre, pixels.
    pub mean2d: [V<S>; 2],
    /// Gradient by the conic's xx, xy (counted once), yy.
    pub conic: V3<S>,
}

/// Gradients by a Gaussian's geometry.
pub struct GeometryGradient<S: Simd> {
    /// Gradient by the centre, world.
    pub mean: V3<S>,
    /// Gradient by the logarithms of the scales.
    pub scales: V3<S>,
    /// Gradient by the quaternion as stored.
    pub quat: [V<S>; 4],
    /// Gradient by the centre, camera.
    pub point: V3<S>,
    /// Gradient by a small rotation of the camera through the Jacobian's `T` only.
    pub omega: V3<S>,
}

/// Computes step 2's rotation matrix of unit quaternions, by rows.
#[inline(always)]
fn rotation_matrix<S: Simd>(s: S, q: [V<S>; 4]) -> [V3<S>; 3] {
    let [w, x, y, z] = q;
    let one = V::splat(s, 1.0);
    let two = V::splat(s, 2.0);
    [
        [
            one - two * (y * y + z * z),
            two * (x * y - w * z),
            two * (x * z + w * y),
        ],
        [
            two * (x * y + w * z),
            one - two * (x * x + z * z),
            two * (y * z - w * x),
        ],
        [
            two * (x * z - w * y),
            two * (y * z + w * x),
            one - two * (x * x + y * y),
        ],
    ]
}

/// Projects part `part` of a block. `filter_3d` holds the block's 3D filters; only with `ANTIALIAS`.
#[inline(always)]
pub fn project<S: Simd, C: Projector, const ANTIALIAS: bool>(
    s: S,
    block: &[Row],
    part: usize,
    camera: &CameraV<S, C>,
    filter_3d: &Row,
) -> Projection<S> {
    let mean = each!(3, |i| V::load(s, &block[component::MEAN + i], part));
    let log_scales = each!(3, |i| V::load(s, &block[component::SCALE + i], part));
    let stored = each!(4, |i| V::load(s, &block[component::QUAT + i], part));
    let logit = V::load(s, &block[component::OPACITY], part);

    let norm2 = stored[0].mul_add(
        stored[0],
        stored[1].mul_add(
            stored[1],
            stored[2].mul_add(stored[2], stored[3] * stored[3]),
        ),
    );
    // 0 * x is NaN for NaN and infinities: a sum that is still zero proves that all are finite.
    let mut poison = logit * s.k(0.0);
    for i in 0..3 {
        poison = mean[i].mul_add(s.k(0.0), log_scales[i].mul_add(s.k(0.0), poison));
    }
    for q in stored {
        poison = q.mul_add(s.k(0.0), poison);
    }
    let finite = poison.ge(s.k(0.0));

    let from_camera = each!(3, |i| (mean[i] - camera.centre[i]) - camera.centre_rest[i]);
    let point = each!(3, |i| dot(camera.rotation[i], from_camera));
    // The square of a denormal quaternion underflows: below this value it has no direction.
    let valid = finite
        .and(C::depth(point).ge(camera.near))
        .and(norm2.ge(s.k(f32::MIN_POSITIVE)));
    // Keeps the results of invalid lanes finite.
    let inverse_norm = s.k(1.0) / valid.select(norm2, s.k(1.0)).sqrt();
    let shape = C::forward(s, camera, point, valid);
    let (valid, t) = (shape.valid, shape.t);

    let quat = each!(4, |i| stored[i] * inverse_norm);
    let mut scales = each!(3, |i| log_scales[i].exp());
    let mut opacity = logit.sigmoid();
    let mut filters = Filters::none(s);
    if ANTIALIAS {
        let deviation = V::load(s, filter_3d, part);
        let (wider, share) = filters.smooth(s, scales, deviation);
        scales = wider;
        opacity = opacity * share;
    }
    let rotation = rotation_matrix(s, quat);
    let m = each!(3, |i| each!(3, |j| rotation[i][j] * scales[j]));
    let columns = transposed(m);
    let u = each!(2, |a| each!(3, |j| dot(t[a], columns[j])));
    let (uu0, uu1) = (dot(u[0], u[0]), dot(u[1], u[1]));
    let area2 = if ANTIALIAS {
        filters.area2(s, t, rotation, scales)
    } else {
        let normal = cross(u[0], u[1]);
        dot(normal, normal)
    };
    let dilation = s.k(antialias::dilation(ANTIALIAS)) + camera.extra_dilation;
    let determinant = dilation.mul_add(uu0 + uu1, area2) + dilation * dilation;
    let inverse = s.k(1.0) / determinant;
    if ANTIALIAS {
        opacity = opacity * (area2 * inverse).sqrt();
    }
    let variance = [uu0 + dilation, uu1 + dilation];
    let conic = [
        variance[1] * inverse,
        -(dot(u[0], u[1]) * inverse),
        variance[0] * inverse,
    ];
    // An overflowed covariance has no usable inverse.
    let valid = valid.and(determinant.lt(s.k(f32::MAX)));
    Projection {
        mean,
        point,
        shape,
        conic,
        inverse_determinant: inverse,
        variance,
        opacity,
        valid,
        scales,
        quat,
        inverse_norm,
        rotation,
        m,
        u,
        filters,
    }
}

/// Computes the backward pass of [`project`]. `weight` is the derivative by the opacity's logarithm;
/// only with `ANTIALIAS`.
#[inline(always)]
pub fn project_backward<S: Simd, C: Projector, const ANTIALIAS: bool>(
    s: S,
    p: &Projection<S>,
    camera: &CameraV<S, C>,
    g: &ScreenGradient<S>,
    weight: V<S>,
) -> GeometryGradient<S> {
    // d cov2d = -conic d(conic) conic; the symmetric matrix H is dL/dcov2d.
    let [ka, kb, kc] = p.conic;
    let [ga, gb, gc] = [g.conic[0], g.conic[1] * s.k(0.5), g.conic[2]];
    // conic * G, row by row.
    let (l00, l01) = (ka * ga + kb * gb, ka * gb + kb * gc);
    let (l10, l11) = (kb * ga + kc * gb, kb * gb + kc * gc);
    let mut h00 = -(l00 * ka + l01 * kb);
    let mut h01 = -(l00 * kb + l01 * kc);
    let mut h11 = -(l10 * kb + l11 * kc);
    if ANTIALIAS {
        let half = weight * s.k(0.5);
        h00 = half.neg_mul_add(ka, h00);
        h01 = half.neg_mul_add(kb, h01);
        h11 = half.neg_mul_add(kc, h11);
    }
    // cov2d = U U^T, so dL/dU = 2 H U.
    let two = s.k(2.0);
    let du = [
        each!(3, |j| two * (h00 * p.u[0][j] + h01 * p.u[1][j])),
        each!(3, |j| two * (h01 * p.u[0][j] + h11 * p.u[1][j])),
    ];
    // U = T M.
    let dm = each!(3, |i| {
        each!(3, |j| p.shape.t[0][i]
            .mul_add(du[0][j], p.shape.t[1][i] * du[1][j]))
    });
    let mut dt = each!(2, |a| each!(3, |i| dot(du[a], p.m[i])));

    let mut dscales = each!(3, |j| {
        let along = dm[0][j].mul_add(
            p.rotation[0][j],
            dm[1][j].mul_add(p.rotation[1][j], dm[2][j] * p.rotation[2][j]),
        );
        along * p.scales[j]
    });
    let mut dr = each!(3, |i| each!(3, |j| dm[i][j] * p.scales[j]));
    if ANTIALIAS {
        let onto = (&mut dscales, &mut dr, &mut dt);
        p.filters
            .area_backward(s, weight, p.rotation, p.shape.t, onto);
        dscales = p.filters.smooth_backward(s, weight, dscales);
    }
    let quat = quat_backward(s, p, &dr);

    let (point, omega) = C::backward(s, p.point, &p.shape, camera, g.mean2d, &dt);
    let mean = each!(3, |j| {
        camera.rotation[0][j].mul_add(
            point[0],
            camera.rotation[1][j].mul_add(point[1], camera.rotation[2][j] * point[2]),
        )
    });
    GeometryGradient {
        mean,
        scales: dscales,
        quat,
        point,
        omega,
    }
}

/// Returns `value` for the axis along which a Gaussian is thinnest, the first of equal ones, and zero for the others.
#[inline(always)]
pub fn at_thinnest<S: Simd>(s: S, log_scales: V3<S>, value: V<S>) -> V3<S> {
    let [a, b, c] = log_scales;
    let none = s.k(0.0);
    let second = b.lt(a);
    let third = c.lt(a.min(b));
    [
        third.select(none, second.select(none, value)),
        third.select(none, second.select(value, none)),
        third.select(value, none),
    ]
}

/// Computes dL/d(stored quaternion) from dL/d(rotation matrix): through the matrix's entries, then
/// through the normalisation, which removes the part along the quaternion.
#[inline(always)]
pub fn quat_backward<S: Simd>(s: S, p: &Projection<S>, dr: &[V3<S>; 3]) -> [V<S>; 4] {
    let [w, x, y, z] = p.quat;
    let two = V::splat(s, 2.0);
    let four = V::splat(s, 4.0);
    let dw =
        two * (x * (dr[2][1] - dr[1][2]) + y * (dr[0][2] - dr[2][0]) + z * (dr[1][0] - dr[0][1]));
    let dx = two
        * (y * (dr[0][1] + dr[1][0]) + z * (dr[0][2] + dr[2][0]) + w * (dr[2][1] - dr[1][2]))
        - four * x * (dr[1][1] + dr[2][2]);
    let dy = two
        * (x * (dr[0][1] + dr[1][0]) + z * (dr[1][2] + dr[2][1]) + w * (dr[0][2] - dr[2][0]))
        - four * y * (dr[0][0] + dr[2][2]);
    let dz = two
        * (x * (dr[0][2] + dr[2][0]) + y * (dr[1][2] + dr[2][1]) + w * (dr[1][0] - dr[0][1]))
        - four * z * (dr[0][0] + dr[1][1]);
    let along = w * dw + x * dx + y * dy + z * dz;
    let d = [dw, dx, dy, dz];
    each!(4, |i| along.neg_mul_add(p.quat[i], d[i]) * p.inverse_norm)
}
