//! Eigenvectors of small symmetric matrices, and the rotation between two lists of points.

use glam::{DMat3, DQuat};

/// Sweeps of Jacobi's method: four by four matrices need fewer than ten.
const SWEEPS: usize = 32;

/// Returns the eigenvalues of a symmetric matrix with their eigenvectors, the largest first.
pub fn eigen<const N: usize>(mut a: [[f64; N]; N]) -> Vec<(f64, [f64; N])> {
    let mut v: [[f64; N]; N] =
        std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))));
    for _ in 0..SWEEPS {
        for p in 0..N {
            for q in p + 1..N {
                if a[p][q].abs() < 1e-300 {
                    continue;
                }
                let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for row in a.iter_mut() {
                    let (kp, kq) = (row[p], row[q]);
                    (row[p], row[q]) = (c * kp - s * kq, s * kp + c * kq);
                }
                let (first, second) = (a[p], a[q]);
                a[p] = std::array::from_fn(|k| c * first[k] - s * second[k]);
                a[q] = std::array::from_fn(|k| s * first[k] + c * second[k]);
                for row in v.iter_mut() {
                    let (kp, kq) = (row[p], row[q]);
                    (row[p], row[q]) = (c * kp - s * kq, s * kp + c * kq);
                }
            }
        }
    }
    let mut found: Vec<(f64, [f64; N])> = (0..N)
        .map(|i| (a[i][i], std::array::from_fn(|k| v[k][i])))
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found
}

/// Returns the rotation that maps points p to points q best, both about their means (Horn 1987): the eigenvector of the
/// largest eigenvalue of Horn's matrix. Row i, column j of `products` is the sum of p_i q_j.
pub fn rotation_of_pairs(products: &DMat3) -> DQuat {
    let s = |i: usize, j: usize| products.col(j)[i];
    let n = [
        [
            s(0, 0) + s(1, 1) + s(2, 2),
            s(1, 2) - s(2, 1),
            s(2, 0) - s(0, 2),
            s(0, 1) - s(1, 0),
        ],
        [
            s(1, 2) - s(2, 1),
            s(0, 0) - s(1, 1) - s(2, 2),
            s(0, 1) + s(1, 0),
            s(2, 0) + s(0, 2),
        ],
        [
            s(2, 0) - s(0, 2),
            s(0, 1) + s(1, 0),
            s(1, 1) - s(0, 0) - s(2, 2),
            s(1, 2) + s(2, 1),
        ],
        [
            s(0, 1) - s(1, 0),
            s(2, 0) + s(0, 2),
            s(1, 2) + s(2, 1),
            s(2, 2) - s(0, 0) - s(1, 1),
        ],
    ];
    let (_, [w, x, y, z]) = eigen(n)[0];
    DQuat::from_xyzw(x, y, z, w).normalize()
}
