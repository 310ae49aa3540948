//! One step of a view's pose: Adam in the tangent space of the camera's motions.
//!
//! 1. [`crate::Gradients::pose`] is the derivative by a small motion `p -> p + omega x p + t` of what
//!    the camera sees. Adam (see [`crate::adam`]) turns it into such a motion.
//! 2. The pose is preceded by `p -> exp(omega) p + t` (Rodrigues' formula), which agrees with it to
//!    first order and is rigid: Sola et al. 2018, "A micro Lie theory", arXiv:1812.01537, on left
//!    increments of SO(3) x R^3.
//!
//! Moments live in the axes of the camera, which turn with it: over the degree or so that a pose
//! moves in a run, that is less than the noise of the steps.

use crate::{Adam, PoseRates};
use dapple_scene::Pose;
use glam::{DQuat, DVec3};

/// Adam's memory of a view's pose.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoseMoments {
    /// First moments: omega, then t.
    pub first: [f64; 6],
    /// Second moments.
    pub second: [f64; 6],
    /// Steps taken for this view.
    pub visits: u32,
}

/// The pose after one more step for its view, with the moments that step leaves.
pub fn refine_pose(
    pose: &Pose,
    moments: &PoseMoments,
    gradient: &[f64; 6],
    rates: &PoseRates,
    adam: &Adam,
) -> (Pose, PoseMoments) {
    let mut next = PoseMoments {
        visits: moments.visits + 1,
        ..*moments
    };
    let mut motion = [0.0; 6];
    for k in 0..6 {
        let rate = if k < 3 {
            rates.rotation
        } else {
            rates.translation
        };
        [motion[k], next.first[k], next.second[k]] = crate::adam(
            [0.0, moments.first[k], moments.second[k]],
            gradient[k],
            rate.into(),
            adam,
            next.visits,
        );
    }
    let [ox, oy, oz, tx, ty, tz] = motion;
    let turn = DQuat::from_scaled_axis(DVec3::new(ox, oy, oz));
    let refined = Pose {
        rotation: (turn * pose.rotation).normalize(),
        translation: turn * pose.translation + DVec3::new(tx, ty, tz),
    };
    (refined, next)
}
