//! Step of a view's pose: Adam in the tangent space of the camera's motions.
//!
//! 1. [`crate::Gradients::pose`] is the derivative by a small motion `p -> p + omega x p + t` of the
//!    points in camera coordinates. Adam (see [`crate::adam`]) turns it into such a motion.
//! 2. The pose is preceded by `p -> exp(omega) p + t` (Rodrigues' formula). This motion is rigid and
//!    agrees with the former to first order: Sola et al. 2018,
//!    "A micro Lie theory", arXiv:1812.01537, <!-- style: allow "Lie" (a name) -->
//!    on left increments of SO(3) x R^3.
//!
//! Moments are in the axes of the camera, which turn with it. A pose turns by about a degree in a
//! run, and the effect on the moments is below the noise of the steps.

use super::PoseRates;
use crate::Adam;
use dapple_scene::Pose;
use glam::{DQuat, DVec3};

/// Adam's moments of a view's pose.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoseMoments {
    /// First moments: omega, then t.
    pub first: [f64; 6],
    /// Second moments.
    pub second: [f64; 6],
    /// Steps taken for this view.
    pub visits: u32,
}

/// Returns the pose and the moments after one more step for the view.
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
