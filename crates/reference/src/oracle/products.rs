//! Products of vectors and matrices.

use glam::{DMat3, DVec3};

/// `a b^T`: row `i` is `a[i] b`.
pub(super) fn outer(a: DVec3, b: DVec3) -> DMat3 {
    DMat3::from_cols(a * b.x, a * b.y, a * b.z)
}

/// Sum of the products of all entries.
pub(super) fn frobenius(a: DMat3, b: DMat3) -> f64 {
    (0..3).map(|k| a.col(k).dot(b.col(k))).sum()
}
