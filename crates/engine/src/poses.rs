//! Poses that training refines: what an engine keeps of a view beside its camera.
//!
//! A step moves the camera of its view by `p -> exp(omega) p + t`, in camera coordinates, with Adam's
//! step of [`crate::Gradients::pose`]; see [`crate::refine_pose`]. The photos of a run are
//! visited in turns, so each has its own moments and its own bias correction.

use crate::PosedCamera;
use dapple_scene::{Camera, Pose};
use glam::{DMat3, DQuat, DVec3};
use serde::{Deserialize, Serialize};

/// Step sizes of poses; 0 = they stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PoseRates {
    /// Turns about the camera's axes, radians.
    pub rotation: f32,
    /// Moves along the camera's axes, world units.
    pub translation: f32,
}

impl PoseRates {
    /// Whether poses stay as they are.
    pub fn are_off(&self) -> bool {
        self.rotation == 0.0 && self.translation == 0.0
    }
}

/// Numbers in a [`RefinedPose`].
pub const POSE_WORDS: usize = 29;

/// A view's pose as far as it is refined, and Adam's moments for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefinedPose {
    /// World to camera, row by row; orthonormal.
    pub rotation: [[f32; 3]; 3],
    /// As [`PosedCamera::centre`].
    pub centre: [f32; 3],
    /// As [`PosedCamera::centre_rest`].
    pub centre_rest: [f32; 3],
    /// First moments: omega, then t.
    pub first: [f32; 6],
    /// Second moments.
    pub second: [f32; 6],
    /// What the weights in either moment add up to, `1 - beta^visits`: Adam's bias corrections.
    pub weights: [f32; 2],
}

impl RefinedPose {
    /// Of a camera that no step has refined.
    pub fn new(camera: &PosedCamera) -> Self {
        Self {
            rotation: camera.rotation,
            centre: camera.centre,
            centre_rest: camera.centre_rest,
            first: [0.0; 6],
            second: [0.0; 6],
            weights: [0.0; 2],
        }
    }

    /// The camera that kernels see, of the one that was given.
    #[must_use]
    pub fn camera(&self, given: &PosedCamera) -> PosedCamera {
        PosedCamera {
            rotation: self.rotation,
            centre: self.centre,
            centre_rest: self.centre_rest,
            ..*given
        }
    }

    /// The pose, of the camera that was given; exactly that camera's while no step has refined it.
    #[must_use]
    pub fn pose(&self, given: &Camera) -> Pose {
        if self.weights[0] == 0.0 {
            return given.camera_from_world;
        }
        let rows = self.rotation.map(|row| row.map(f64::from));
        let rotation = DQuat::from_mat3(&DMat3::from_cols_array_2d(&rows).transpose()).normalize();
        let [kept, rest] = [self.centre, self.centre_rest].map(|v| DVec3::from(v.map(f64::from)));
        let centre = kept + rest;
        Pose {
            rotation,
            translation: -(rotation * centre),
        }
    }

    /// All numbers in the order of the fields.
    pub fn to_words(&self) -> [f32; POSE_WORDS] {
        let mut words = [0.0; POSE_WORDS];
        let all = self.rotation.iter().flatten();
        let all = all.chain(&self.centre).chain(&self.centre_rest);
        let all = all.chain(&self.first);
        for (word, value) in words
            .iter_mut()
            .zip(all.chain(&self.second).chain(&self.weights))
        {
            *word = *value;
        }
        words
    }

    /// From [`Self::to_words`].
    pub fn from_words(words: &[f32; POSE_WORDS]) -> Self {
        let at = |first: usize| std::array::from_fn(|i| words[first + i]);
        Self {
            rotation: [at(0), at(3), at(6)],
            centre: at(9),
            centre_rest: at(12),
            first: std::array::from_fn(|i| words[15 + i]),
            second: std::array::from_fn(|i| words[21 + i]),
            weights: [words[27], words[28]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_poses_come_back() {
        let eye = DVec3::new(1e3, -2.0, 0.3);
        let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::Y);
        let camera = Camera::pinhole(8, 8, 9.0, pose);
        let words = std::array::from_fn(|i| i as f32);
        assert_eq!(RefinedPose::from_words(&words).to_words(), words);
        let Ok(posed) = PosedCamera::new(&camera) else {
            panic!("a sound camera")
        };
        let mut refined = RefinedPose::new(&posed);
        assert_eq!(refined.pose(&camera), pose);
        assert_eq!(refined.camera(&posed), posed);
        // One that was visited is read from the numbers that kernels use.
        refined.weights = [0.1, 0.1];
        let back = refined.pose(&camera);
        assert!(back.centre().distance(eye) < 1e-6);
        assert!(back.rotation.angle_between(pose.rotation) < 1e-6);
    }
}
