//! Similarity that moves points onto others: iterated closest points.

use crate::nearest::Nearest;
use dapple_base::{Error, Result};
use glam::{DMat3, DQuat, DVec3, Vec3};
use rayon::prelude::*;

/// Points of each step.
const POINTS: usize = 20_000;

/// Steps.
const STEPS: usize = 40;

/// Share of the nearest pairs that a step uses.
const INLIERS: f64 = 0.7;

/// Steps of the power iteration for a rotation.
const POWERS: usize = 400;

/// Similarity `x -> scale * rotation * x + translation`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// Scale.
    pub scale: f64,
    /// Rotation.
    pub rotation: DQuat,
    /// Translation, world units.
    pub translation: DVec3,
}

impl Motion {
    /// Moves a point.
    pub fn point(&self, p: Vec3) -> Vec3 {
        (self.rotation * p.as_dvec3() * self.scale + self.translation).as_vec3()
    }
}

/// Finds the motion of `points` onto `truth`, from the identity on. Returns it and the moved points.
///
/// # Errors
/// Fewer than three points.
pub fn aligned(truth: &[Vec3], points: &[Vec3]) -> Result<(Motion, Vec<Vec3>)> {
    if truth.len() < 3 || points.len() < 3 {
        return Err(Error::input("too few points to align"));
    }
    let nearest = Nearest::new(truth);
    let step = points.len().div_ceil(POINTS);
    let some: Vec<Vec3> = points.iter().copied().step_by(step).collect();
    let mut motion = Motion {
        scale: 1.0,
        rotation: DQuat::IDENTITY,
        translation: DVec3::ZERO,
    };
    for _ in 0..STEPS {
        let pair = |&p: &Vec3| {
            let (i, distance) = nearest.find(motion.point(p))?;
            Some((distance, p.as_dvec3(), truth[i].as_dvec3()))
        };
        let mut pairs: Vec<(f32, DVec3, DVec3)> = some.par_iter().filter_map(pair).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs.truncate(((pairs.len() as f64 * INLIERS) as usize).max(3));
        motion = fitted(&pairs);
    }
    let moved = points.par_iter().map(|&p| motion.point(p)).collect();
    Ok((motion, moved))
}

/// Fits a similarity to pairs (Horn 1987).
fn fitted(pairs: &[(f32, DVec3, DVec3)]) -> Motion {
    let count = pairs.len() as f64;
    let from = pairs.iter().map(|p| p.1).sum::<DVec3>() / count;
    let to = pairs.iter().map(|p| p.2).sum::<DVec3>() / count;
    let mut products = DMat3::ZERO;
    let (mut of_from, mut of_to) = (0.0, 0.0);
    for &(_, p, q) in pairs {
        let (p, q) = (p - from, q - to);
        products += DMat3::from_cols(p * q.x, p * q.y, p * q.z);
        of_from += p.length_squared();
        of_to += q.length_squared();
    }
    let rotation = rotation(&products);
    let scale = if of_from > 0.0 {
        (of_to / of_from).sqrt()
    } else {
        1.0
    };
    Motion {
        scale,
        rotation,
        translation: to - rotation * from * scale,
    }
}

/// Returns the rotation of the largest eigenvalue of Horn's matrix. Column `j`, row `i` of `products` is the sum of
/// `p_i q_j`.
fn rotation(products: &DMat3) -> DQuat {
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
    // A shift by the norm makes the largest eigenvalue the one of the largest magnitude.
    let shift: f64 = n.as_flattened().iter().map(|v| v * v).sum::<f64>().sqrt();
    let mut q = [1.0, 1e-3, 1e-3, 1e-3];
    for _ in 0..POWERS {
        let mut next: [f64; 4] = std::array::from_fn(|i| {
            shift * q[i] + n[i].iter().zip(q).map(|(a, b)| a * b).sum::<f64>()
        });
        let length = next.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length == 0.0 {
            return DQuat::IDENTITY;
        }
        for v in &mut next {
            *v /= length;
        }
        q = next;
    }
    DQuat::from_xyzw(q[1], q[2], q[3], q[0]).normalize()
}
