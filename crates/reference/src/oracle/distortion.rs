//! Distortion of rays by lenses, with first and second derivatives.
//!
//! A lens maps the slopes `(a, b) = (x/z, y/z)` of a ray to the place where it lands, in units of
//! the focal length: see [`dapple_scene::Lens`]. This module repeats the formulas over numbers that
//! carry their derivatives along ([`Jet`]: forward-mode differentiation to second order, Griewank &
//! Walther 2008, chapter 13), so that no derivative is written by hand.
//!
//! 1. Radial and tangential (Brown 1966), rational: OpenCV's `calib3d` documentation.
//! 2. Fisheyes: Kannala & Brandt 2006, a polynomial of the angle off the axis.
//! 3. Fisheyes with thin prisms: COLMAP's and Project Aria's documentation (Weng et al. 1992).
//! 4. FOV: Devernay & Faugeras 2001.
//! 5. Enhanced unified camera model: Khomutenko et al. 2016.

use dapple_scene::{Error, Lens, Result};
use std::ops::{Add, Mul};

/// A function of the slopes at one place: value, gradient, and the second derivatives by aa, ab, bb.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jet {
    /// Value.
    pub value: f64,
    /// Derivatives by a and b.
    pub first: [f64; 2],
    /// Derivatives by a twice, by a and b, by b twice.
    pub second: [f64; 3],
}

impl Jet {
    /// A number that does not depend on the slopes.
    pub fn constant(value: f64) -> Self {
        Self {
            value,
            first: [0.0; 2],
            second: [0.0; 3],
        }
    }

    /// Slope `axis` itself.
    pub fn slope(axis: usize, value: f64) -> Self {
        Self {
            first: [0, 1].map(|k| if k == axis { 1.0 } else { 0.0 }),
            ..Self::constant(value)
        }
    }

    /// `f(self)`, from f's value, first and second derivative there.
    fn then(self, [f, df, ddf]: [f64; 3]) -> Self {
        let [a, b] = self.first;
        let squares = [a * a, a * b, b * b];
        Self {
            value: f,
            first: self.first.map(|v| df * v),
            second: [0, 1, 2].map(|k| df * self.second[k] + ddf * squares[k]),
        }
    }

    /// `1 / self`.
    fn recip(self) -> Self {
        let r = self.value.recip();
        self.then([r, -r * r, 2.0 * r * r * r])
    }

    fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.then([root, 0.5 / root, -0.25 / (root * self.value)])
    }

    fn times(self, factor: f64) -> Self {
        self * Self::constant(factor)
    }
}

impl Add for Jet {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            first: [0, 1].map(|k| self.first[k] + other.first[k]),
            second: [0, 1, 2].map(|k| self.second[k] + other.second[k]),
        }
    }
}

impl Mul for Jet {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.first, other.first);
        let mixed = [2.0 * a * c, a * d + b * c, 2.0 * b * d];
        Self {
            value: self.value * other.value,
            first: [0, 1].map(|k| self.first[k] * other.value + self.value * other.first[k]),
            second: [0, 1, 2]
                .map(|k| self.second[k] * other.value + self.value * other.second[k] + mixed[k]),
        }
    }
}

/// Where a lens puts the ray of slopes `(a, b)`, in units of the focal length.
///
/// # Errors
/// A lens that the reference does not know.
pub fn distort(lens: &Lens, a: f64, b: f64) -> Result<[Jet; 2]> {
    let (a, b) = (Jet::slope(0, a), Jet::slope(1, b));
    let r2 = a * a + b * b;
    Ok(match *lens {
        _ if lens.is_identity() => [a, b],
        Lens::Radial([k1, k2]) => scaled([a, b], series(r2, &[k1, k2])),
        Lens::OpenCv([k1, k2, p1, p2]) => {
            let radial = scaled([a, b], series(r2, &[k1, k2]));
            sum(radial, tangential([a, b], p1, p2))
        }
        Lens::FullOpenCv([k1, k2, p1, p2, k3, k4, k5, k6]) => {
            let rational = series(r2, &[k1, k2, k3]) * series(r2, &[k4, k5, k6]).recip();
            sum(scaled([a, b], rational), tangential([a, b], p1, p2))
        }
        Lens::Fov(omega) => {
            // atan(c r) / (r omega)
            let c = 2.0 * (omega / 2.0).tan();
            let ratio = r2.times(c * c);
            let ratio = ratio.then(angle_over_slope(ratio.value));
            scaled([a, b], ratio.times(c / omega))
        }
        Lens::Eucm([alpha, beta]) => {
            let root = (Jet::constant(1.0) + r2.times(beta)).sqrt();
            let across = root.times(alpha) + Jet::constant(1.0 - alpha);
            scaled([a, b], across.recip())
        }
        Lens::Fisheye(k) => {
            let bent = equidistant([a, b]);
            scaled(bent, series(square(bent), &k))
        }
        Lens::ThinPrismFisheye([k1, k2, p1, p2, k3, k4, sx1, sy1]) => {
            let bent = equidistant([a, b]);
            let theta2 = square(bent);
            let radial = scaled(bent, series(theta2, &[k1, k2, k3, k4]));
            let prism = [theta2.times(sx1), theta2.times(sy1)];
            sum(sum(radial, tangential(bent, p1, p2)), prism)
        }
        Lens::RadTanThinPrismFisheye([k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3]) => {
            let bent = equidistant([a, b]);
            let radial = scaled(bent, series(square(bent), &[k0, k1, k2, k3, k4, k5]));
            let r2 = square(radial);
            let prism = [
                r2.times(s0) + (r2 * r2).times(s1),
                r2.times(s2) + (r2 * r2).times(s3),
            ];
            sum(sum(radial, tangential(radial, p1, p0)), prism)
        }
        other => {
            return Err(Error::unsupported(format!(
                "the reference does not know the lens {other:?}"
            ))
            .hint("undistort the photos first: --undistort"));
        }
    })
}

/// The same direction, at a distance of the angle off the axis instead of its tangent.
fn equidistant([a, b]: [Jet; 2]) -> [Jet; 2] {
    let r2 = a * a + b * b;
    scaled([a, b], r2.then(angle_over_slope(r2.value)))
}

/// `atan(sqrt(t)) / sqrt(t)` with its first and second derivative by t.
fn angle_over_slope(t: f64) -> [f64; 3] {
    if t < 0.1 {
        // Sum over n of (-t)^n / (2 n + 1); beyond n = 20 nothing is left of f64.
        let mut sums = [0.0; 3];
        for n in (0..21).rev() {
            let c = f64::from(1 - 2 * (n % 2)) / f64::from(2 * n + 1);
            // Horner's scheme, differentiated twice.
            sums = [
                sums[0] * t + c,
                sums[1] * t + sums[0],
                sums[2] * t + 2.0 * sums[1],
            ];
        }
        return sums;
    }
    let ratio = t.sqrt().atan() / t.sqrt();
    let cos2 = 1.0 / (1.0 + t);
    let first = (cos2 - ratio) / (2.0 * t);
    [ratio, first, -(cos2 * cos2 + 3.0 * first) / (2.0 * t)]
}

/// `1 + k[0] t + k[1] t^2 + ...`
fn series(t: Jet, k: &[f64]) -> Jet {
    let tail = k.iter().rev();
    let tail = tail.fold(Jet::constant(0.0), |sum, &k| sum * t + Jet::constant(k));
    Jet::constant(1.0) + t * tail
}

/// Decentring, OpenCV's order of `p1` and `p2`.
fn tangential([x, y]: [Jet; 2], p1: f64, p2: f64) -> [Jet; 2] {
    let r2 = x * x + y * y;
    let xy = (x * y).times(2.0);
    [
        xy.times(p1) + (r2 + (x * x).times(2.0)).times(p2),
        (r2 + (y * y).times(2.0)).times(p1) + xy.times(p2),
    ]
}

fn square([x, y]: [Jet; 2]) -> Jet {
    x * x + y * y
}

fn scaled(v: [Jet; 2], factor: Jet) -> [Jet; 2] {
    v.map(|v| v * factor)
}

fn sum([a, b]: [Jet; 2], [c, d]: [Jet; 2]) -> [Jet; 2] {
    [a + c, b + d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The series and the closed form meet, and both are right.
    #[test]
    fn the_angle_over_its_slope_and_its_derivatives() {
        for t in [1e-9f64, 1e-3, 0.05, 0.0999, 0.1001, 0.7, 3.0, 900.0] {
            let [value, first, second] = angle_over_slope(t);
            let truth = t.sqrt().atan() / t.sqrt();
            assert!((value / truth - 1.0).abs() < 1e-14, "{t}: {value} {truth}");
            let h = 1e-5 * t.max(1e-2);
            let difference = |k: usize| {
                (angle_over_slope(t + h)[k] - angle_over_slope((t - h).max(0.0))[k])
                    / (t + h - (t - h).max(0.0))
            };
            let tolerance = if t < h { 1e-5 } else { 1e-8 };
            assert!((difference(0) - first).abs() < tolerance, "{t}: {first}");
            assert!((difference(1) - second).abs() < tolerance, "{t}: {second}");
        }
    }
}
