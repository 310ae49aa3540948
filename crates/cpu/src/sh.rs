//! Real spherical harmonics to degree 3, in the sign convention of the 3DGS ecosystem.
//!
//! The basis is a polynomial in the unit direction (x, y, z); `dapple_reference` gives the source
//! of its constants. The backward pass needs the gradient of each basis function. The colour
//! depends on the direction only through `normalize(mean - centre)`, so the part of that gradient
//! along the direction has no effect and is removed.

use crate::simd::{Splat, V, V3};
use pulp::Simd;

const C0: f32 = 0.282_094_8;
const C1: f32 = 0.488_602_5;
const C2: [f32; 5] = [
    1.092_548_4,
    -1.092_548_4,
    0.315_391_57,
    -1.092_548_4,
    0.546_274_2,
];
const C3: [f32; 7] = [
    -0.590_043_6,
    2.890_611_4,
    -0.457_045_8,
    0.373_176_34,
    -0.457_045_8,
    1.445_305_7,
    -0.590_043_6,
];

/// Returns the values of the basis functions; those beyond `degree` are zero.
#[inline(always)]
pub fn basis<S: Simd>(s: S, degree: u8, d: V3<S>) -> [V<S>; 16] {
    let [x, y, z] = d;
    let mut b = [s.k(0.0); 16];
    b[0] = s.k(C0);
    if degree >= 1 {
        b[1] = y * s.k(-C1);
        b[2] = z * s.k(C1);
        b[3] = x * s.k(-C1);
    }
    if degree >= 2 {
        b[4] = x * y * s.k(C2[0]);
        b[5] = y * z * s.k(C2[1]);
        b[6] = (z * z * s.k(3.0) - s.k(1.0)) * s.k(C2[2]);
        b[7] = x * z * s.k(C2[3]);
        b[8] = (x * x - y * y) * s.k(C2[4]);
    }
    if degree >= 3 {
        let (xx, yy, zz) = (x * x, y * y, z * z);
        b[9] = y * (xx * s.k(3.0) - yy) * s.k(C3[0]);
        b[10] = x * y * z * s.k(C3[1]);
        b[11] = y * (zz * s.k(5.0) - s.k(1.0)) * s.k(C3[2]);
        b[12] = z * (zz * s.k(5.0) - s.k(3.0)) * s.k(C3[3]);
        b[13] = x * (zz * s.k(5.0) - s.k(1.0)) * s.k(C3[4]);
        b[14] = z * (xx - yy) * s.k(C3[5]);
        b[15] = x * (xx - yy * s.k(3.0)) * s.k(C3[6]);
    }
    b
}

/// Returns `sum over k of weight[k] * gradient of basis[k]` at a direction.
#[inline(always)]
pub fn basis_backward<S: Simd>(s: S, degree: u8, d: V3<S>, weight: &[V<S>; 16]) -> V3<S> {
    let [x, y, z] = d;
    let mut g = [s.k(0.0); 3];
    if degree >= 1 {
        g[1] += weight[1] * s.k(-C1);
        g[2] += weight[2] * s.k(C1);
        g[0] += weight[3] * s.k(-C1);
    }
    if degree >= 2 {
        let w4 = weight[4] * s.k(C2[0]);
        let w5 = weight[5] * s.k(C2[1]);
        let w6 = weight[6] * s.k(6.0 * C2[2]);
        let w7 = weight[7] * s.k(C2[3]);
        let w8 = weight[8] * s.k(2.0 * C2[4]);
        g[0] += w4 * y + w7 * z + w8 * x;
        g[1] += w4 * x + w5 * z - w8 * y;
        g[2] += w5 * y + w6 * z + w7 * x;
    }
    if degree >= 3 {
        let (xx, yy, zz) = (x * x, y * y, z * z);
        let (xy, xz, yz) = (x * y, x * z, y * z);
        let w9 = weight[9] * s.k(C3[0]);
        let w10 = weight[10] * s.k(C3[1]);
        let w11 = weight[11] * s.k(C3[2]);
        let w12 = weight[12] * s.k(C3[3]);
        let w13 = weight[13] * s.k(C3[4]);
        let w14 = weight[14] * s.k(C3[5]);
        let w15 = weight[15] * s.k(C3[6]);
        let five_zz = zz * s.k(5.0) - s.k(1.0);
        g[0] += w9 * xy * s.k(6.0)
            + w10 * yz
            + w13 * five_zz
            + w14 * xz * s.k(2.0)
            + w15 * (xx - yy) * s.k(3.0);
        g[1] += w9 * (xx - yy) * s.k(3.0) + w10 * xz + w11 * five_zz
            - w14 * yz * s.k(2.0)
            - w15 * xy * s.k(6.0);
        g[2] += w10 * xy
            + w11 * yz * s.k(10.0)
            + w12 * (zz * s.k(15.0) - s.k(3.0))
            + w13 * xz * s.k(10.0)
            + w14 * (xx - yy);
    }
    g
}
