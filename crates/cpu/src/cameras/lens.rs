//! Projection through a lens that distorts, forward and backward.
//!
//! With (a, b) = (x/z, y/z) and t = a^2 + b^2, as in [`LensForm`]:
//! 1. A(t) = atan(sqrt(m t)) / sqrt(m t), m = bend, with A' and A'': by its series where m t is small
//!    and the closed form would cancel. The arctangent is four times that of the tangent of a quarter
//!    of the angle, from the same series: 2e-7 up to 90 degrees, on every CPU.
//!    For EUCM, A(t) = 1 / (alpha sqrt(1 + beta t) + 1 - alpha).
//! 2. s(t) = A N(u) / D(u), u = t A^2, with s' and s'': the chain rule.
//! 3. Tangential and prism terms: G(t) Q(a, b) + P(t), where G = w^2, Q is quadratic and P the prism.
//! 4. The place is (a, b) s + G Q + P; its first and second derivatives follow from the above.
//! 5. centre = focal place(a, b) + principal; T = focal D (R_k - c_k R_2) / z, where D is the
//!    derivative of the place at the clamped slopes c.
//!
//! GPU version: shaders/shared/lens.wgsl. Reference: `dapple_reference::distort`.

use super::pinhole::slopes;
use super::projector::{CameraV, Projector, Shape, Slopes};
use crate::frame::CameraF32;
use crate::simd::{M, Splat, V, V3, dot, each};
use dapple_engine::LensForm;
use glam::Vec2;
use pulp::Simd;

/// Below this m t the series is taken.
const SERIES_END: f32 = 0.15;

/// Terms of the series, `(-t)^n / (2 n + 1)`: at [`SERIES_END`] the second derivative is right to
/// 3e-6, at the largest quarter of an angle, t = 0.172, the value to 1e-9.
const TERMS: usize = 10;

/// Least argument of EUCM's root: beyond the reach it may be negative, and nothing is shown there.
const ROOT_MIN: f32 = 1e-12;

/// A lens in every lane.
#[derive(Clone, Copy)]
pub struct LensV<S: Simd> {
    bend: V<S>,
    /// alpha and beta of EUCM.
    root: Option<[V<S>; 2]>,
    reach: V<S>,
    decentres_distorted: bool,
    numerator: [V<S>; 7],
    /// From u^0 on, which is 1.
    denominator: [V<S>; 4],
    tangential: [V<S>; 2],
    /// For x and y, the coefficients of rho and rho^2.
    prism: [[V<S>; 2]; 2],
}

impl<S: Simd> LensV<S> {
    /// Broadcasts a lens.
    #[inline(always)]
    pub fn new(s: S, lens: &LensForm) -> Self {
        let zero = s.k(0.0);
        let mut numerator = [zero; 7];
        for i in 0..7 {
            numerator[i] = s.k(lens.numerator[i]);
        }
        let d = &lens.denominator;
        Self {
            bend: s.k(lens.bend),
            root: (lens.root[0] != 0.0).then(|| each!(2, |i| s.k(lens.root[i]))),
            reach: s.k(lens.reach),
            decentres_distorted: lens.decentres_distorted,
            numerator,
            denominator: [s.k(1.0), s.k(d[0]), s.k(d[1]), s.k(d[2])],
            tangential: each!(2, |i| s.k(lens.tangential[i])),
            prism: each!(2, |i| each!(2, |j| s.k(lens.prism[2 * i + j]))),
        }
    }

    /// Which rays the lens shows.
    #[inline(always)]
    pub fn shows(&self, slope: [V<S>; 2]) -> M<S> {
        let [a, b] = slope;
        self.reach.ge(a.mul_add(a, b * b))
    }
}

/// Where rays land, in units of the focal length, with the derivatives by the slopes (a, b).
struct Jet<S: Simd> {
    place: [V<S>; 2],
    da: [V<S>; 2],
    db: [V<S>; 2],
    daa: [V<S>; 2],
    dab: [V<S>; 2],
    dbb: [V<S>; 2],
}

/// A polynomial with its first and second derivative.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, t: V<S>, coefficients: &[V<S>; N]) -> V3<S> {
    let mut sums = [s.k(0.0); 3];
    let two = s.k(2.0);
    for i in (0..N).rev() {
        sums[2] = sums[2].mul_add(t, two * sums[1]);
        sums[1] = sums[1].mul_add(t, sums[0]);
        sums[0] = sums[0].mul_add(t, coefficients[i]);
    }
    sums
}

/// Step 1: `atan(sqrt(x)) / sqrt(x)` with its first and second derivative, and `1 / (1 + x)`.
#[inline(always)]
fn angle_over_slope<S: Simd>(s: S, x: V<S>) -> (V3<S>, V<S>) {
    let (one, two, limit) = (s.k(1.0), s.k(2.0), s.k(SERIES_END));
    let mut terms = [one; TERMS];
    for n in 0..TERMS {
        let sign = if n % 2 == 0 { 1.0 } else { -1.0 };
        terms[n] = s.k(sign / (2 * n + 1) as f32);
    }
    let near = polynomial(s, x.min(limit), &terms);
    let x_far = x.max(limit);
    let cos2 = one / (one + x);
    // Tangents of the half and of the quarter, over the whole one.
    let half = one / (one + (one + x_far).sqrt());
    let half2 = x_far * half * half;
    let quarter = half / (one + (one + half2).sqrt());
    let [value, _, _] = polynomial(s, x_far * quarter * quarter, &terms);
    let value = s.k(4.0) * quarter * value;
    let scale = one / (two * x_far);
    let first = (cos2 - value) * scale;
    let second = -(cos2 * cos2 + s.k(3.0) * first) * scale;
    let is_near = x.lt(limit);
    let far = [value, first, second];
    (each!(3, |i| is_near.select(near[i], far[i])), cos2)
}

/// Step 1 for EUCM: A and its first and second derivative.
#[inline(always)]
fn root_jet<S: Simd>(s: S, [alpha, beta]: [V<S>; 2], t: V<S>) -> V3<S> {
    let (one, two) = (s.k(1.0), s.k(2.0));
    let root = beta.mul_add(t, one).max(s.k(ROOT_MIN)).sqrt();
    let inverse = one / alpha.mul_add(root, one - alpha);
    let slope = alpha * beta / (two * root);
    let first = -(slope * inverse * inverse);
    let bend = slope * beta / (two * root * root);
    [
        inverse,
        first,
        inverse * (bend * inverse - two * slope * first),
    ]
}

/// Returns the place of slopes (a, b) through a lens, in units of the focal length, and its derivatives by a and b. `None`
/// beyond the reach. Without a lens the place is the slopes.
pub fn place_of(lens: Option<&LensForm>, slopes: Vec2) -> Option<(Vec2, Vec2, Vec2)> {
    let Some(lens) = lens else {
        return Some((slopes, Vec2::X, Vec2::Y));
    };
    if slopes.length_squared() > lens.reach {
        return None;
    }
    let s = pulp::Scalar;
    let found = jet(s, &LensV::new(s, lens), slopes.to_array().map(|v| s.k(v)));
    let vector = |of: [V<pulp::Scalar>; 2]| Vec2::from(of.map(|v| v.1));
    Some((vector(found.place), vector(found.da), vector(found.db)))
}

/// Steps 1 to 4.
#[inline(always)]
fn jet<S: Simd>(s: S, lens: &LensV<S>, slope: [V<S>; 2]) -> Jet<S> {
    let [a, b] = slope;
    let (two, three, four, six) = (s.k(2.0), s.k(3.0), s.k(4.0), s.k(6.0));
    let t = a.mul_add(a, b * b);
    let m = lens.bend;
    let ([angle, angle1, angle2], cos2) = angle_over_slope(s, m * t);
    let [angle, angle1, angle2] = match lens.root {
        Some(root) => root_jet(s, root, t),
        None => [angle, m * angle1, m * m * angle2],
    };

    // Step 2.
    let u = t * angle * angle;
    let u1 = angle * cos2;
    let u2 = angle1 * cos2 - angle * m * cos2 * cos2;
    let [n, n1, n2] = polynomial(s, u, &lens.numerator);
    let [d, d1, d2] = polynomial(s, u, &lens.denominator);
    let inverse = s.k(1.0) / d;
    let q = n * inverse;
    let q1 = (n1 - q * d1) * inverse;
    let q2 = (n2 - two * q1 * d1 - q * d2) * inverse;
    let r = angle * q;
    let r1 = angle1 * q + angle * q1 * u1;
    let r2 = angle2 * q + two * angle1 * q1 * u1 + angle * (q2 * u1 * u1 + q1 * u2);

    // Step 3.
    let [w, w1, w2] = if lens.decentres_distorted {
        [r, r1, r2]
    } else {
        [angle, angle1, angle2]
    };
    let g = w * w;
    let g1 = two * w * w1;
    let g2 = two * (w1 * w1 + w * w2);
    let rho = t * g;
    let rho1 = g + t * g1;
    let rho2 = two * g1 + t * g2;
    let mut prism = [[s.k(0.0); 3]; 2];
    for i in 0..2 {
        let [linear, quadratic] = lens.prism[i];
        let along = linear + two * quadratic * rho;
        prism[i] = [
            rho * (linear + quadratic * rho),
            along * rho1,
            two * quadratic * rho1 * rho1 + along * rho2,
        ];
    }
    let [p1, p2] = lens.tangential;
    let (aa, ab, bb) = (a * a, a * b, b * b);
    let quad = [
        two * p1 * ab + p2 * (three * aa + bb),
        p1 * (aa + three * bb) + two * p2 * ab,
    ];
    let quad_a = [two * p1 * b + six * p2 * a, two * (p1 * a + p2 * b)];
    let quad_b = [two * (p1 * a + p2 * b), six * p1 * b + two * p2 * a];
    let quad_aa = [six * p2, two * p1];
    let quad_ab = [two * p1, two * p2];
    let quad_bb = [two * p2, six * p1];

    // Step 4: `f` and `e` are the factors of (2a, 2b) in the first and second derivatives.
    let f = each!(2, |i| slope[i] * r1 + g1 * quad[i] + prism[i][1]);
    let e = each!(2, |i| slope[i] * r2 + g2 * quad[i] + prism[i][2]);
    let mut out = Jet {
        place: each!(2, |i| slope[i] * r + g * quad[i] + prism[i][0]),
        da: each!(2, |i| two * a * f[i] + g * quad_a[i]),
        db: each!(2, |i| two * b * f[i] + g * quad_b[i]),
        daa: each!(2, |i| two * f[i]
            + four * (aa * e[i] + a * g1 * quad_a[i])
            + g * quad_aa[i]),
        dab: each!(2, |i| four * ab * e[i]
            + two * g1 * (a * quad_b[i] + b * quad_a[i])
            + g * quad_ab[i]),
        dbb: each!(2, |i| two * f[i]
            + four * (bb * e[i] + b * g1 * quad_b[i])
            + g * quad_bb[i]),
    };
    out.da[0] += r;
    out.db[1] += r;
    out.daa[0] += four * a * r1;
    out.dab[0] += two * b * r1;
    out.dab[1] += two * a * r1;
    out.dbb[1] += four * b * r1;
    out
}

/// Rows k of `(R_k - c_k R_2) / z`, at the slopes c.
#[inline(always)]
fn slope_rows<S: Simd>(
    camera: &CameraV<S, DistortingLens>,
    c: [V<S>; 2],
    inverse_z: V<S>,
) -> [V3<S>; 2] {
    let r = &camera.rotation;
    each!(2, |k| each!(3, |j| c[k].neg_mul_add(r[2][j], r[k][j])
        * inverse_z))
}

/// Perspective camera with a lens that distorts.
#[derive(Debug, Clone, Copy)]
pub struct DistortingLens;

impl Projector for DistortingLens {
    type Constants<S: Simd> = LensV<S>;

    #[inline(always)]
    fn constants<S: Simd>(s: S, camera: &CameraF32) -> LensV<S> {
        LensV::new(s, &camera.lens.unwrap_or_default())
    }

    /// Step 5.
    #[inline(always)]
    fn forward<S: Simd>(s: S, camera: &CameraV<S, Self>, point: V3<S>, valid: M<S>) -> Shape<S> {
        let slopes = slopes(s, camera, point, valid);
        let Slopes {
            inverse_z,
            uv,
            clamped,
        } = slopes;
        let valid = valid.and(camera.model.shows(uv));
        let at = jet(s, &camera.model, uv);
        let shape = jet(s, &camera.model, clamped);
        let [p, q] = slope_rows(camera, clamped, inverse_z);
        let mean2d = each!(2, |i| at.place[i]
            .mul_add(camera.focal[i], camera.principal[i]));
        let t = each!(2, |i| each!(3, |j| camera.focal[i]
            * (shape.da[i] * p[j] + shape.db[i] * q[j])));
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
        let Slopes {
            inverse_z,
            uv,
            clamped,
        } = p.slopes;
        let at = jet(s, &camera.model, uv);
        let shape = jet(s, &camera.model, clamped);
        let rows = slope_rows(camera, clamped, inverse_z);
        let ft = each!(2, |i| each!(3, |j| dt[i][j] * camera.focal[i]));
        // To the rows, and to D: T_i = f_i (D_ia P_a + D_ib P_b).
        let d_rows = [
            each!(3, |j| shape.da[0] * ft[0][j] + shape.da[1] * ft[1][j]),
            each!(3, |j| shape.db[0] * ft[0][j] + shape.db[1] * ft[1][j]),
        ];
        let d_da = each!(2, |i| dot(ft[i], rows[0]));
        let d_db = each!(2, |i| dot(ft[i], rows[1]));
        // To the slopes that D and the rows are taken at; clamped ones do not move.
        let through_shape = [
            d_da[0] * shape.daa[0]
                + d_da[1] * shape.daa[1]
                + d_db[0] * shape.dab[0]
                + d_db[1] * shape.dab[1],
            d_da[0] * shape.dab[0]
                + d_da[1] * shape.dab[1]
                + d_db[0] * shape.dbb[0]
                + d_db[1] * shape.dbb[1],
        ];
        let through_rows = each!(2, |k| -(dot(camera.rotation[2], d_rows[k]) * inverse_z));
        let moves = each!(2, |k| uv[k]
            .ge(camera.jacobian_min[k])
            .and(camera.jacobian_max[k].ge(uv[k]))
            .select(through_shape[k] + through_rows[k], s.k(0.0)));
        // To the slopes of the centre.
        let fc = each!(2, |i| d_mean2d[i] * camera.focal[i]);
        let duv = [
            moves[0] + fc[0] * at.da[0] + fc[1] * at.da[1],
            moves[1] + fc[0] * at.db[0] + fc[1] * at.db[1],
        ];
        let dz =
            -(dot(rows[0], d_rows[0]) + dot(rows[1], d_rows[1]) + duv[0] * uv[0] + duv[1] * uv[1])
                * inverse_z;
        let point = [duv[0] * inverse_z, duv[1] * inverse_z, dz];

        // By R's rows; turned, row 0 becomes omega_y R_2 - omega_z R_1, and cyclic.
        let d0 = each!(3, |j| d_rows[0][j] * inverse_z);
        let d1 = each!(3, |j| d_rows[1][j] * inverse_z);
        let d2 = each!(3, |j| -(clamped[0] * d0[j] + clamped[1] * d1[j]));
        let r = &camera.rotation;
        let omega = [
            dot(d2, r[1]) - dot(d1, r[2]),
            dot(d0, r[2]) - dot(d2, r[0]),
            dot(d1, r[0]) - dot(d0, r[1]),
        ];
        (point, omega)
    }
}
