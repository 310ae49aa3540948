//! Eigenvectors of small symmetric matrices, and the similarity between two lists of points.

use dapple_scene::edit::Similarity;
use glam::{DMat3, DQuat, DVec3};

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

/// Returns the mean.
pub fn mean(points: impl ExactSizeIterator<Item = DVec3>) -> DVec3 {
    let count = points.len().max(1) as f64;
    points.sum::<DVec3>() / count
}

/// Returns the standard deviations along the main axes, the largest first.
pub fn spread(points: &[DVec3]) -> [f64; 3] {
    let middle = mean(points.iter().copied());
    let mut a = [[0.0; 3]; 3];
    for point in points {
        let d = (*point - middle).to_array();
        for i in 0..3 {
            for j in 0..3 {
                a[i][j] += d[i] * d[j] / points.len() as f64;
            }
        }
    }
    let found = eigen(a);
    std::array::from_fn(|k| found[k].0.max(0.0).sqrt())
}

/// Returns the similarity that maps `from` to `to` best (least squares: Horn 1987). `None` without extent.
pub fn fit(from: &[DVec3], to: &[DVec3]) -> Option<Similarity> {
    let (a, b) = (mean(from.iter().copied()), mean(to.iter().copied()));
    let mut m = DMat3::ZERO;
    let (mut extent, mut other) = (0.0, 0.0);
    for (p, q) in from.iter().zip(to) {
        let (p, q) = (*p - a, *q - b);
        m += DMat3::from_cols(q * p.x, q * p.y, q * p.z);
        extent += p.length_squared();
        other += q.length_squared();
    }
    if extent <= 0.0 || other <= 0.0 {
        return None;
    }
    // s[i][j]: sum of component i of `from` times component j of `to`.
    let s = |i: usize, j: usize| m.col(i)[j];
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
    let turn = DQuat::from_xyzw(x, y, z, w).normalize();
    let along: f64 = from
        .iter()
        .zip(to)
        .map(|(p, q)| (turn * (*p - a)).dot(*q - b))
        .sum();
    let scale = along / extent;
    if !(scale.is_finite() && scale > 0.0) {
        return None;
    }
    let similarity = Similarity {
        scale,
        ..Similarity::rotation(turn)
    };
    let moved = similarity.point(a);
    Some(Similarity {
        translation: (b - moved).to_array(),
        ..similarity
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_similarity_is_found_again_also_of_points_in_a_plane() {
        let wanted = Similarity {
            scale: 3.5,
            translation: [10.0, -4.0, 2.0],
            ..Similarity::from_degrees([20.0, 130.0, -75.0])
        };
        for height in [0.0, 0.3] {
            let from: Vec<DVec3> = (0..9)
                .map(|i| {
                    let i = f64::from(i);
                    DVec3::new(
                        (i * 1.7).sin(),
                        (i * 0.9).cos() * 2.0,
                        height * (i * 2.3).sin(),
                    )
                })
                .collect();
            let to: Vec<DVec3> = from.iter().map(|&p| wanted.point(p)).collect();
            let found = fit(&from, &to).unwrap();
            for (p, q) in from.iter().zip(&to) {
                assert!(found.point(*p).distance(*q) < 1e-9);
            }
        }
        assert!(fit(&[DVec3::ONE; 3], &[DVec3::ONE; 3]).is_none());
    }

    #[test]
    fn spreads_are_ordered() {
        let line: Vec<DVec3> = (0..5).map(|i| DVec3::new(0.0, f64::from(i), 0.0)).collect();
        let found = spread(&line);
        assert!(
            (found[0] - 2f64.sqrt()).abs() < 1e-9 && found[1] < 1e-9,
            "{found:?}"
        );
    }
}
