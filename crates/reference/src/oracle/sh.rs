//! Real spherical harmonics up to degree 3, and their derivatives.
//!
//! Order and signs are those of the 3DGS paper's code and of all splat files. Within a degree, m
//! runs from -l to l, and odd m have the Condon-Shortley sign. Constants are the normalisation that
//! makes the basis orthonormal on the sphere (tested by quadrature).

use glam::DVec3;
use std::f64::consts::PI;

/// Returns `sqrt(numerator / (denominator * pi))`, the form of every normalisation.
fn norm(numerator: f64, denominator: f64) -> f64 {
    (numerator / (denominator * PI)).sqrt()
}

/// Returns the basis functions at a unit direction, up to `degree`.
pub fn sh_basis(degree: u8, direction: DVec3) -> Vec<f64> {
    let DVec3 { x, y, z } = direction;
    let (xx, yy, zz) = (x * x, y * y, z * z);
    let mut basis = vec![norm(1.0, 4.0)];
    if degree >= 1 {
        let c = norm(3.0, 4.0);
        basis.extend([-c * y, c * z, -c * x]);
    }
    if degree >= 2 {
        let c = norm(15.0, 4.0);
        basis.extend([
            c * x * y,
            -c * y * z,
            norm(5.0, 16.0) * (2.0 * zz - xx - yy),
            -c * x * z,
            norm(15.0, 16.0) * (xx - yy),
        ]);
    }
    if degree >= 3 {
        let (c0, c2) = (norm(35.0, 32.0), norm(21.0, 32.0));
        basis.extend([
            -c0 * y * (3.0 * xx - yy),
            norm(105.0, 4.0) * x * y * z,
            -c2 * y * (4.0 * zz - xx - yy),
            norm(7.0, 16.0) * z * (2.0 * zz - 3.0 * xx - 3.0 * yy),
            -c2 * x * (4.0 * zz - xx - yy),
            norm(105.0, 16.0) * z * (xx - yy),
            -c0 * x * (xx - 3.0 * yy),
        ]);
    }
    basis
}

/// Returns the derivatives of [`sh_basis`] by x, y and z, each taken as a polynomial in free
/// coordinates (the caller accounts for the direction's length).
pub fn sh_basis_gradient(degree: u8, direction: DVec3) -> Vec<DVec3> {
    let DVec3 { x, y, z } = direction;
    let (xx, yy, zz) = (x * x, y * y, z * z);
    let mut gradient = vec![DVec3::ZERO];
    if degree >= 1 {
        let c = norm(3.0, 4.0);
        gradient.extend([DVec3::Y * -c, DVec3::Z * c, DVec3::X * -c]);
    }
    if degree >= 2 {
        let c = norm(15.0, 4.0);
        gradient.extend([
            c * DVec3::new(y, x, 0.0),
            -c * DVec3::new(0.0, z, y),
            norm(5.0, 16.0) * DVec3::new(-2.0 * x, -2.0 * y, 4.0 * z),
            -c * DVec3::new(z, 0.0, x),
            norm(15.0, 16.0) * DVec3::new(2.0 * x, -2.0 * y, 0.0),
        ]);
    }
    if degree >= 3 {
        let (c0, c2) = (norm(35.0, 32.0), norm(21.0, 32.0));
        gradient.extend([
            -c0 * DVec3::new(6.0 * x * y, 3.0 * xx - 3.0 * yy, 0.0),
            norm(105.0, 4.0) * DVec3::new(y * z, x * z, x * y),
            -c2 * DVec3::new(-2.0 * x * y, 4.0 * zz - xx - 3.0 * yy, 8.0 * y * z),
            norm(7.0, 16.0)
                * DVec3::new(-6.0 * x * z, -6.0 * y * z, 6.0 * zz - 3.0 * xx - 3.0 * yy),
            -c2 * DVec3::new(4.0 * zz - 3.0 * xx - yy, -2.0 * x * y, 8.0 * x * z),
            norm(105.0, 16.0) * DVec3::new(2.0 * x * z, -2.0 * y * z, xx - yy),
            -c0 * DVec3::new(3.0 * xx - 3.0 * yy, -6.0 * x * y, 0.0),
        ]);
    }
    gradient
}
