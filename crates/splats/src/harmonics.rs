//! Spherical harmonics under rotations.
//!
//! A colour f(d) = sum_m c_m Y_m(d) that turns with its Gaussian becomes f'(d) = f(R^-1 d). Within a degree
//! Y_m(R^-1 d) = sum_n M_nm Y_n(d), and as the basis is orthonormal, M_nm is the integral of
//! Y_n(d) Y_m(R^-1 d) over the sphere. The integrand is a polynomial of degree 6 at most, so a quadrature that is
//! exact for those gives M to rounding, without a recursion over degrees and its table of cases:
//!
//! 1. Directions and weights: 4 Gauss-Legendre nodes along z (exact to degree 7), 7 equal steps around it (exact
//!    to degree 6).
//! 2. The basis at each direction and at each direction turned back.
//! 3. Their weighted products, for the 3 + 5 + 7 functions of degrees 1 to 3.

use glam::{DMat3, DVec3};
use std::f64::consts::{PI, TAU};

/// Basis functions up to degree 3.
const COUNT: usize = 16;

/// Where the functions of degrees 1, 2, 3 begin and end.
const BANDS: [(usize, usize); 3] = [(1, 4), (4, 9), (9, 16)];

/// `sqrt(numerator / (denominator pi))`: the form of every normalisation.
fn norm(numerator: f64, denominator: f64) -> f64 {
    (numerator / (denominator * PI)).sqrt()
}

/// The basis at a unit direction, in the order and with the signs of the 3DGS paper's code.
pub fn basis(DVec3 { x, y, z }: DVec3) -> [f64; COUNT] {
    let (xx, yy, zz) = (x * x, y * y, z * z);
    let (a, b) = (norm(3.0, 4.0), norm(15.0, 4.0));
    let (c, d) = (norm(35.0, 32.0), norm(21.0, 32.0));
    [
        norm(1.0, 4.0),
        -a * y,
        a * z,
        -a * x,
        b * x * y,
        -b * y * z,
        norm(5.0, 16.0) * (2.0 * zz - xx - yy),
        -b * x * z,
        norm(15.0, 16.0) * (xx - yy),
        -c * y * (3.0 * xx - yy),
        norm(105.0, 4.0) * x * y * z,
        -d * y * (4.0 * zz - xx - yy),
        norm(7.0, 16.0) * z * (2.0 * zz - 3.0 * xx - 3.0 * yy),
        -d * x * (4.0 * zz - xx - yy),
        norm(105.0, 16.0) * z * (xx - yy),
        -c * x * (xx - 3.0 * yy),
    ]
}

/// Effect of a rotation on coefficients: block diagonal, one block per degree.
#[derive(Debug, Clone)]
pub struct Turn {
    matrix: Box<[[f64; COUNT]; COUNT]>,
}

impl Turn {
    /// Builds the matrix for colours that rotate by `rotation`.
    pub fn new(rotation: DMat3) -> Self {
        let mut matrix = Box::new([[0.0; COUNT]; COUNT]);
        for (direction, weight) in quadrature() {
            let here = basis(direction);
            let back = basis(rotation.transpose() * direction);
            for (from, to) in BANDS {
                for n in from..to {
                    for m in from..to {
                        matrix[n][m] += weight * here[n] * back[m];
                    }
                }
            }
        }
        Self { matrix }
    }

    /// Turns one Gaussian's coefficients 1.., `[K - 1, 3]`.
    pub fn apply(&self, sh_rest: &mut [f32]) {
        let coefficients = sh_rest.len() / 3;
        for channel in 0..3 {
            for (from, to) in BANDS.into_iter().filter(|(_, to)| *to <= coefficients + 1) {
                let mut turned = [0.0; 7];
                for (n, out) in (from..to).zip(&mut turned) {
                    let terms = (from..to)
                        .map(|m| self.matrix[n][m] * f64::from(sh_rest[(m - 1) * 3 + channel]));
                    *out = terms.sum();
                }
                for (n, value) in (from..to).zip(turned) {
                    sh_rest[(n - 1) * 3 + channel] = value as f32;
                }
            }
        }
    }
}

/// Directions and weights that integrate polynomials up to degree 6 over the sphere exactly.
pub(crate) fn quadrature() -> Vec<(DVec3, f64)> {
    // Roots of the Legendre polynomial P4 and its weights, in closed form (Abramowitz & Stegun 25.4.30).
    let root = (6.0f64 / 5.0).sqrt();
    let (inner, outer) = (
        (3.0 / 7.0 - 2.0 / 7.0 * root).sqrt(),
        (3.0 / 7.0 + 2.0 / 7.0 * root).sqrt(),
    );
    let (heavy, light) = (
        (18.0 + 30.0f64.sqrt()) / 36.0,
        (18.0 - 30.0f64.sqrt()) / 36.0,
    );
    let nodes = [
        (inner, heavy),
        (-inner, heavy),
        (outer, light),
        (-outer, light),
    ];
    let steps = 7;
    let mut all = Vec::with_capacity(nodes.len() * steps);
    for (z, weight) in nodes {
        let across = (1.0 - z * z).sqrt();
        for step in 0..steps {
            let (sin, cos) = (TAU * step as f64 / steps as f64).sin_cos();
            let direction = DVec3::new(across * cos, across * sin, z);
            all.push((direction, weight * TAU / steps as f64));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::DQuat;

    #[test]
    fn the_basis_is_orthonormal_under_the_quadrature() {
        for n in 0..COUNT {
            for m in 0..COUNT {
                let terms = quadrature().into_iter().map(|(direction, weight)| {
                    let basis = basis(direction);
                    weight * basis[n] * basis[m]
                });
                let product: f64 = terms.sum();
                let wanted = f64::from(u8::from(n == m));
                assert!((product - wanted).abs() < 1e-13, "{n} {m}: {product}");
            }
        }
    }

    /// Turned coefficients seen from d give what the old ones give from d turned back.
    #[test]
    fn coefficients_turn_as_their_function_does() {
        let rotation = DQuat::from_axis_angle(DVec3::new(0.3, -0.5, 0.8).normalize(), 1.234);
        let before: Vec<f32> = (0..45).map(|i| (i as f32 * 0.7).sin()).collect();
        for degree in 1..=3usize {
            let count = (degree + 1) * (degree + 1) - 1;
            let mut after = before[..count * 3].to_vec();
            Turn::new(DMat3::from_quat(rotation)).apply(&mut after);
            for (direction, _) in quadrature() {
                let colour = |rest: &[f32], direction| {
                    let basis = basis(direction);
                    (0..count)
                        .map(|k| basis[k + 1] * f64::from(rest[k * 3 + 1]))
                        .sum::<f64>()
                };
                let now = colour(&after, direction);
                let then = colour(&before[..count * 3], rotation.inverse() * direction);
                assert!((now - then).abs() < 1e-6, "{degree}: {now} {then}");
            }
        }
    }

    /// A quarter turn about z takes x to y: Y_1 of x (index 3) becomes that of y (index 1).
    #[test]
    fn a_quarter_turn_moves_red_from_one_side_to_the_next() {
        let mut rest = [0.0f32; 9];
        rest[6] = -1.0; // towards +x: the function is -a x
        Turn::new(DMat3::from_rotation_z(PI / 2.0)).apply(&mut rest);
        let wanted = [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for (value, wanted) in rest.iter().zip(wanted) {
            assert!((value - wanted).abs() < 1e-6, "{rest:?}");
        }
    }
}
