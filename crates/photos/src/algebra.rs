//! Spread of points, and the similarity between two lists of points.

use dapple_scene::algebra::{eigen, rotation_of_pairs};
use dapple_scene::edit::Similarity;
use glam::{DMat3, DVec3};

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
        m += DMat3::from_cols(p * q.x, p * q.y, p * q.z);
        extent += p.length_squared();
        other += q.length_squared();
    }
    if extent <= 0.0 || other <= 0.0 {
        return None;
    }
    let turn = rotation_of_pairs(&m);
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
