//! Lens distortion in normalised coordinates.
//!
//! A lens maps the ideal image point `(x, y) = (X/Z, Y/Z)` of a ray to the point where the real
//! lens puts it; focal length and principal point then give pixels. Formulas: OpenCV's
//! `calib3d` documentation (radial, tangential, rational), Kannala & Brandt 2006 (fisheye),
//! Devernay & Faugeras 2001 (FOV), Khomutenko et al. 2016 (EUCM), Fitzgibbon 2001 (division), Weng et al. 1992
//! (thin prism), Project Aria's documentation (RadTanThinPrism); the order of the coefficients is COLMAP's.
//!
//! The division model maps a distorted radius `d` to the ideal one `d / (1 + k d^2)`. Solved for `d`, it is EUCM
//! with `alpha = 1/2` and `beta = -4 k`, so [`Lens::division`] makes it one.
//!
//! 1. Every lens here is a radial profile `g(r)` plus small tangential and prism terms.
//! 2. A polynomial profile folds back at some radius: beyond it a lens shows nothing, and
//!    [`Lens::max_radius`] finds it by walking outwards until `g` stops rising.
//! 3. [`Lens::undistort`] bisects the profile for a start, then Newton's method closes the rest.

use crate::{Lens, Panorama};
use glam::{DVec2, DVec3};

/// Largest angle of the search for the fold, from the axis, radians (89.5 degrees: a pinhole image cannot reach 90).
const WIDEST: f64 = 89.5 / 180.0 * std::f64::consts::PI;

/// Steps of that search: 0.05 degrees each.
const WALK_STEPS: u32 = 1790;

impl Lens {
    /// Returns true if the lens does not change rays, up to rounding.
    pub fn is_identity(&self) -> bool {
        match self {
            Self::Pinhole => true,
            Self::Radial(k) => k.iter().all(|&k| k == 0.0),
            Self::OpenCv(k) => k.iter().all(|&k| k == 0.0),
            Self::FullOpenCv(k) => k.iter().all(|&k| k == 0.0),
            // The arctangent is its argument to 1e-8, and its formula 0/0 at 0.
            Self::Fov(omega) => omega.abs() < 1e-4,
            Self::Eucm([alpha, beta]) => alpha * beta == 0.0,
            Self::Fisheye(_)
            | Self::ThinPrismFisheye(_)
            | Self::RadTanThinPrismFisheye(_)
            | Self::Panorama(_) => false,
        }
    }

    /// Returns the model of a panorama.
    pub fn panorama(&self) -> Option<Panorama> {
        match *self {
            Self::Panorama(panorama) => Some(panorama),
            _ => None,
        }
    }

    /// Returns true if the camera looks along +z: its depth is z, it shows only points before it, and a pinhole camera
    /// can replace it.
    pub fn is_perspective(&self) -> bool {
        self.panorama().is_none()
    }

    /// Builds the lens of the division model (SIMPLE_DIVISION, DIVISION) with coefficient `k`.
    pub fn division(k: f64) -> Self {
        Self::Eucm([0.5, -4.0 * k])
    }

    /// Returns the coefficients, in the order of the variants' documentation.
    pub fn coefficients(&self) -> &[f64] {
        match self {
            Self::Pinhole | Self::Panorama(_) => &[],
            Self::Radial(k) | Self::Eucm(k) => k,
            Self::OpenCv(k) | Self::Fisheye(k) => k,
            Self::FullOpenCv(k) | Self::ThinPrismFisheye(k) => k,
            Self::Fov(omega) => std::slice::from_ref(omega),
            Self::RadTanThinPrismFisheye(k) => k,
        }
    }

    /// Returns the model's name, and the names of its coefficients in the order of [`Lens::coefficients`].
    pub fn model(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Pinhole => ("PINHOLE", &[]),
            Self::Panorama(panorama) => (panorama.name(), &[]),
            Self::Radial(_) => ("RADIAL", &["k1", "k2"]),
            Self::OpenCv(_) => ("OPENCV", &["k1", "k2", "p1", "p2"]),
            Self::FullOpenCv(_) => (
                "FULL_OPENCV",
                &["k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"],
            ),
            Self::Fov(_) => ("FOV", &["omega"]),
            Self::Eucm(_) => ("EUCM", &["alpha", "beta"]),
            Self::Fisheye(_) => ("OPENCV_FISHEYE", &["k1", "k2", "k3", "k4"]),
            Self::ThinPrismFisheye(_) => (
                "THIN_PRISM_FISHEYE",
                &["k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1"],
            ),
            Self::RadTanThinPrismFisheye(_) => (
                "RAD_TAN_THIN_PRISM_FISHEYE",
                &[
                    "k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2", "s3",
                ],
            ),
        }
    }

    /// Returns true if every coefficient is finite.
    pub fn is_finite(&self) -> bool {
        self.coefficients().iter().all(|k| k.is_finite())
    }

    /// Maps the ideal point `(x, y)` to its distorted point; both in normalised coordinates.
    ///
    /// Meaningful up to [`Lens::max_radius`]. For a panorama, the front half only: its places.
    /// [`Rays`](crate::Rays) has all of it.
    pub fn distort(&self, x: f64, y: f64) -> (f64, f64) {
        if let Self::Panorama(panorama) = self {
            return panorama.place(DVec3::new(x, y, 1.0)).into();
        }
        let r = x.hypot(y);
        // g(r)/r tends to g'(0) on the axis, which is 1 for all but FOV, where the point is 0 anyway.
        let s = if r > 0.0 { self.profile(r) / r } else { 1.0 };
        let (u, v) = (x * s, y * s);
        match *self {
            Self::Pinhole
            | Self::Radial(_)
            | Self::Fov(_)
            | Self::Eucm(_)
            | Self::Fisheye(_)
            | Self::Panorama(_) => (u, v),
            // Tangential terms act on the undistorted point ...
            Self::OpenCv([_, _, p1, p2]) | Self::FullOpenCv([_, _, p1, p2, ..]) => {
                let (du, dv) = tangential(x, y, p1, p2);
                (u + du, v + dv)
            }
            // ... here on the equidistant one ...
            Self::ThinPrismFisheye([_, _, p1, p2, _, _, sx1, sy1]) => {
                let e = if r > 0.0 { r.atan() / r } else { 1.0 };
                let (ex, ey) = (x * e, y * e);
                let r2 = ex * ex + ey * ey;
                let (du, dv) = tangential(ex, ey, p1, p2);
                (u + du + sx1 * r2, v + dv + sy1 * r2)
            }
            // ... and here on the radially distorted one, with p0 and p1 the other way round.
            Self::RadTanThinPrismFisheye([.., p0, p1, s0, s1, s2, s3]) => {
                let r2 = u * u + v * v;
                let (du, dv) = tangential(u, v, p1, p0);
                (
                    u + du + s0 * r2 + s1 * r2 * r2,
                    v + dv + s2 * r2 + s3 * r2 * r2,
                )
            }
        }
    }

    /// Returns the ideal point that the lens maps to `(x, y)`, or `None` if no ray of less than 89.5 degrees reaches
    /// it.
    pub fn undistort(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        self.undistort_within(x, y, self.max_radius())
    }

    /// [`Lens::undistort`] with [`Lens::max_radius`] known, for many points.
    pub fn undistort_within(&self, x: f64, y: f64, max_radius: f64) -> Option<(f64, f64)> {
        let distance = x.hypot(y);
        if !distance.is_finite() {
            return None;
        }
        if let Self::Panorama(panorama) = self {
            let ray = panorama.direction(DVec2::new(x, y));
            let ideal = (ray.x / ray.z, ray.y / ray.z);
            return (ray.z > 0.0 && ideal.0.hypot(ideal.1) <= max_radius).then_some(ideal);
        }
        if distance == 0.0 && self.distort(0.0, 0.0) == (0.0, 0.0) {
            return Some((0.0, 0.0));
        }
        // The profile rises up to max_radius, so bisection of the angle finds its inverse.
        let (mut low, mut high) = (0.0, max_radius.atan());
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.profile(middle.tan()) < distance {
                low = middle;
            } else {
                high = middle;
            }
        }
        let r = (0.5 * (low + high)).tan();
        let (mut px, mut py) = (x / distance * r, y / distance * r);
        let tolerance = 1e-10 * (1.0 + distance);
        for _ in 0..20 {
            let (dx, dy) = self.distort(px, py);
            let (ex, ey) = (x - dx, y - dy);
            if ex.hypot(ey) <= tolerance {
                return (px.hypot(py) <= max_radius * (1.0 + 1e-9)).then_some((px, py));
            }
            let h = 1e-6 * (1.0 + px.hypot(py));
            let (ax, ay) = self.distort(px + h, py);
            let (bx, by) = self.distort(px - h, py);
            let (cx, cy) = self.distort(px, py + h);
            let (fx, fy) = self.distort(px, py - h);
            let (jxx, jyx) = ((ax - bx) / (2.0 * h), (ay - by) / (2.0 * h));
            let (jxy, jyy) = ((cx - fx) / (2.0 * h), (cy - fy) / (2.0 * h));
            let det = jxx * jyy - jxy * jyx;
            if !det.is_normal() {
                return None;
            }
            px += (jyy * ex - jxy * ey) / det;
            py += (jxx * ey - jyx * ex) / det;
        }
        None
    }

    /// Returns the largest radius `hypot(x, y)` up to which the radial profile rises. Beyond it, the image of the lens
    /// overlaps the image of the inside. At most tan(89.5 degrees).
    pub fn max_radius(&self) -> f64 {
        let mut before = 0.0;
        for step in 1..=WALK_STEPS {
            let angle = |step: u32| WIDEST * f64::from(step) / f64::from(WALK_STEPS);
            let here = self.profile(angle(step).tan());
            // Also false for NaN.
            if !(here > before && here.is_finite()) {
                return angle(step - 1).tan();
            }
            before = here;
        }
        WIDEST.tan()
    }

    /// Returns the distance from the axis to which the radial part maps a ray of ideal distance `r`.
    fn profile(&self, r: f64) -> f64 {
        let r2 = r * r;
        match *self {
            Self::Pinhole => r,
            Self::Panorama(panorama) => panorama.place(DVec3::new(0.0, r, 1.0)).y,
            Self::Radial([k1, k2]) | Self::OpenCv([k1, k2, _, _]) => r * series(r2, &[k1, k2]),
            Self::FullOpenCv([k1, k2, _, _, k3, k4, k5, k6]) => {
                r * series(r2, &[k1, k2, k3]) / series(r2, &[k4, k5, k6])
            }
            Self::Fov(_) if self.is_identity() => r,
            Self::Fov(omega) => (2.0 * r * (omega / 2.0).tan()).atan() / omega,
            Self::Eucm([alpha, beta]) => r / (alpha * (1.0 + beta * r2).sqrt() + 1.0 - alpha),
            Self::Fisheye(k) => {
                let theta = r.atan();
                theta * series(theta * theta, &k)
            }
            Self::ThinPrismFisheye([k1, k2, _, _, k3, k4, _, _]) => {
                let theta = r.atan();
                theta * series(theta * theta, &[k1, k2, k3, k4])
            }
            Self::RadTanThinPrismFisheye([k0, k1, k2, k3, k4, k5, ..]) => {
                let theta = r.atan();
                theta * series(theta * theta, &[k0, k1, k2, k3, k4, k5])
            }
        }
    }
}

/// Evaluates `1 + k[0] t + k[1] t^2 + ...`
fn series(t: f64, k: &[f64]) -> f64 {
    1.0 + t * k.iter().rev().fold(0.0, |sum, &k| sum * t + k)
}

/// Computes the decentring (Brown 1966), OpenCV's order of `p1` and `p2`.
fn tangential(x: f64, y: f64, p1: f64, p2: f64) -> (f64, f64) {
    let r2 = x * x + y * y;
    (
        2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
        p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lenses() -> Vec<Lens> {
        vec![
            Lens::Pinhole,
            Lens::Radial([-0.12, 0.03]),
            Lens::OpenCv([-0.2, 0.05, 0.001, -0.002]),
            Lens::FullOpenCv([0.3, -0.1, 0.001, 0.002, 0.02, 0.4, -0.05, 0.01]),
            Lens::Fov(0.9),
            Lens::Eucm([0.6, 1.1]),
            Lens::division(-0.2),
            Lens::division(0.1),
            Lens::Fisheye([0.02, -0.01, 0.003, -0.0005]),
            Lens::Panorama(Panorama::Equirectangular),
            Lens::ThinPrismFisheye([0.02, -0.01, 0.001, -0.001, 0.002, -0.0003, 0.001, -0.002]),
            Lens::RadTanThinPrismFisheye([
                0.02, -0.01, 0.002, 0.0, 0.0001, 0.0, 0.001, -0.002, 0.001, 0.0, -0.001, 0.0005,
            ]),
        ]
    }

    #[track_caller]
    fn assert_near(got: (f64, f64), want: (f64, f64)) {
        assert!(
            (got.0 - want.0).abs() < 1e-12 && (got.1 - want.1).abs() < 1e-12,
            "{got:?} is not {want:?}"
        );
    }

    #[test]
    fn known_values_worked_by_hand() {
        // r^2 = 0.25; radial 1 + 0.1/4 + 0.2/16 = 1.0375
        let radial = Lens::Radial([0.1, 0.2]).distort(0.3, 0.4);
        assert_near(radial, (0.31125, 0.415));
        // dx = 2*0.01*0.12 + 0.02*(0.25 + 0.18) = 0.011; dy = 0.01*(0.25 + 0.32) + 2*0.02*0.12 = 0.0105
        let opencv = Lens::OpenCv([0.1, 0.2, 0.01, 0.02]).distort(0.3, 0.4);
        assert_near(opencv, (0.31125 + 0.011, 0.415 + 0.0105));
        // (1 + 0.1/4 + 0.2/16 + 0.3/64) / (1 + 0.4/4 + 0.5/16 + 0.6/64)
        let s = (1.0 + 0.025 + 0.0125 + 0.0046875) / (1.0 + 0.1 + 0.03125 + 0.009375);
        let full = Lens::FullOpenCv([0.1, 0.2, 0.0, 0.0, 0.3, 0.4, 0.5, 0.6]).distort(0.3, 0.4);
        assert_near(full, (0.3 * s, 0.4 * s));
        // 45 degrees: theta = pi/4 whatever the direction.
        let theta = std::f64::consts::FRAC_PI_4;
        let d = theta * (1.0 + 0.1 * theta * theta - 0.02 * theta.powi(8));
        let fisheye = Lens::Fisheye([0.1, 0.0, 0.0, -0.02]).distort(0.6, 0.8);
        assert_near(fisheye, (0.6 * d, 0.8 * d));
        // omega = pi/2: tan(omega/2) = 1, so r = 0.5 lands at atan(1)/(pi/2) = 0.5.
        let fov = Lens::Fov(std::f64::consts::FRAC_PI_2).distort(0.0, 0.5);
        assert_near(fov, (0.0, 0.5));
        // 1 + 0.96 * 0.25 = 1.24; a division model undoes d / (1 + k d^2).
        let eucm = Lens::Eucm([0.7, 0.96]).distort(0.3, 0.4);
        let s = 1.0 / (0.7 * 1.24f64.sqrt() + 0.3);
        assert_near(eucm, (0.3 * s, 0.4 * s));
        let ideal = |d: f64, k: f64| d / (1.0 + k * d * d);
        for k in [-0.3, 0.2] {
            assert_near(Lens::division(k).distort(ideal(0.45, k), 0.0), (0.45, 0.0));
        }
        // Only prism terms, at 45 degrees along x: r = theta.
        let prism = Lens::ThinPrismFisheye([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.2]);
        let t2 = theta * theta;
        assert_near(prism.distort(1.0, 0.0), (theta + 0.1 * t2, 0.2 * t2));
        // p0 is the coefficient of (r^2 + 2 x^2) in x, p1 of (r^2 + 2 y^2) in y.
        let mut k = [0.0; 12];
        (k[6], k[7], k[9]) = (0.01, 0.02, 0.5);
        let aria = Lens::RadTanThinPrismFisheye(k).distort(1.0, 0.0);
        assert_near(aria, (theta + 0.03 * t2 + 0.5 * t2 * t2, 0.02 * t2));
    }

    #[test]
    fn undistort_inverts_distort() {
        for lens in lenses() {
            let reach = lens.max_radius().min(1.2) * 0.95;
            for i in 0..24 {
                for ring in 0..=5 {
                    let (angle, r) = (f64::from(i) * 0.2618, reach * f64::from(ring) / 5.0);
                    let (x, y) = (r * angle.cos(), r * angle.sin());
                    let (dx, dy) = lens.distort(x, y);
                    let Some((ux, uy)) = lens.undistort(dx, dy) else {
                        panic!("{lens:?} has no inverse at ({x}, {y})");
                    };
                    assert!((ux - x).hypot(uy - y) < 1e-7, "{lens:?} at ({x}, {y})");
                }
            }
        }
    }

    #[test]
    fn a_folding_lens_ends_where_its_derivative_vanishes() {
        // d/dr r (1 - 0.3 r^2) = 1 - 0.9 r^2 = 0
        let lens = Lens::Radial([-0.3, 0.0]);
        let fold = (1.0_f64 / 0.9).sqrt();
        assert!((lens.max_radius() - fold).abs() < 5e-3);
        // The furthest a ray lands is g(fold); nothing shows beyond.
        let furthest = fold * (1.0 - 0.3 * fold * fold);
        assert!(lens.undistort(furthest * 1.01, 0.0).is_none());
        assert!(lens.undistort(0.0, furthest * 0.99).is_some());
        // A fisheye without coefficients reaches to the end of the walk.
        assert!(Lens::Fisheye([0.0; 4]).max_radius() > 100.0);
    }
}
