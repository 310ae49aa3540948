//! Similarity that moves points onto others: iterated closest points.

use crate::nearest::Nearest;
use dapple_base::{Error, Result};
use dapple_scene::algebra::rotation_of_pairs;
use dapple_scene::edit::Similarity;
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

/// Points of each step.
const POINTS: usize = 20_000;

/// Steps.
const STEPS: usize = 40;

/// Share of the nearest pairs that a step uses.
const INLIERS: f64 = 0.7;

/// Finds the motion of `points` onto `truth`, from the identity on. Returns it and the moved points.
///
/// # Errors
/// Fewer than three points.
pub fn aligned(truth: &[Vec3], points: &[Vec3]) -> Result<(Similarity, Vec<Vec3>)> {
    if truth.len() < 3 || points.len() < 3 {
        return Err(Error::input("too few points to align"));
    }
    let nearest = Nearest::new(truth);
    let step = points.len().div_ceil(POINTS);
    let some: Vec<Vec3> = points.iter().copied().step_by(step).collect();
    let mut motion = Similarity::IDENTITY;
    for _ in 0..STEPS {
        let pair = |&p: &Vec3| {
            let (i, distance) = nearest.find(moved(&motion, p))?;
            Some((distance, p.as_dvec3(), truth[i].as_dvec3()))
        };
        let mut pairs: Vec<(f32, DVec3, DVec3)> = some.par_iter().filter_map(pair).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs.truncate(((pairs.len() as f64 * INLIERS) as usize).max(3));
        motion = fitted(&pairs);
    }
    let points = points.par_iter().map(|&p| moved(&motion, p)).collect();
    Ok((motion, points))
}

fn moved(motion: &Similarity, p: Vec3) -> Vec3 {
    motion.point(p.as_dvec3()).as_vec3()
}

/// Fits a similarity to pairs (Horn 1987).
fn fitted(pairs: &[(f32, DVec3, DVec3)]) -> Similarity {
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
    let rotation = rotation_of_pairs(&products);
    let scale = if of_from > 0.0 {
        (of_to / of_from).sqrt()
    } else {
        1.0
    };
    let motion = Similarity {
        scale,
        ..Similarity::rotation(rotation)
    };
    Similarity {
        translation: (to - motion.point(from)).to_array(),
        ..motion
    }
}
