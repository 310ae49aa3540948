//! Pose refinement: the state of a view's camera in an engine.
//!
//! A step moves the camera of its view by `p -> exp(omega) p + t`, in camera coordinates, with Adam's
//! step of [`crate::Gradients::pose`]; see [`crate::refine_pose`]. The steps of a run alternate
//! between photos, so each photo has its own moments and bias correction.

mod step;

pub use step::{PoseMoments, refine_pose};

use super::tensors::{Field, TensorRow, ViewTensors};
use crate::PosedCamera;
use dapple_scene::{Camera, Pose};
use glam::{DMat3, DQuat, DVec3};
use serde::{Deserialize, Serialize};

/// Step sizes of poses; 0 = fixed poses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PoseRates {
    /// Turns about the camera's axes, radians.
    pub rotation: f32,
    /// Moves along the camera's axes, world units.
    pub translation: f32,
}

/// Step sizes of the pose of a step's view.
pub type Step = PoseRates;

/// Refined poses by view; empty if no step has refined any.
pub type State = Vec<RefinedPose>;

impl ViewTensors for State {
    type Sizes = usize;
    const TENSORS: &'static [TensorRow<Self>] = &[TensorRow {
        name: "poses",
        field: Field::Converted(
            |poses| poses.iter().flat_map(RefinedPose::to_words).collect(),
            |poses, words| {
                let rows = words.as_chunks::<POSE_WORDS>().0;
                *poses = rows.iter().map(RefinedPose::from_words).collect();
            },
        ),
        shape: |&views| vec![views, POSE_WORDS],
    }];

    fn sizes(&self) -> usize {
        self.len()
    }
}

impl PoseRates {
    /// Returns true if poses are fixed.
    pub fn are_off(&self) -> bool {
        self.rotation == 0.0 && self.translation == 0.0
    }
}

/// Numbers in a [`RefinedPose`].
pub const POSE_WORDS: usize = 29;

/// Refined pose of a view, with Adam's moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefinedPose {
    /// World to camera, row by row; orthonormal.
    pub rotation: [[f32; 3]; 3],
    /// Centre in world coordinates, as in [`PosedCamera::centre`].
    pub centre: [f32; 3],
    /// Rounding error of the centre, as in [`PosedCamera::centre_rest`].
    pub centre_rest: [f32; 3],
    /// First moments: omega, then t.
    pub first: [f32; 6],
    /// Second moments.
    pub second: [f32; 6],
    /// Sums of the weights of either moment, `1 - beta^visits`: Adam's bias corrections.
    pub weights: [f32; 2],
}

impl RefinedPose {
    /// Creates the pose of a camera before any refinement.
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

    /// Returns the refined camera for kernels; `given` is the camera before refinement.
    #[must_use]
    pub fn camera(&self, given: &PosedCamera) -> PosedCamera {
        PosedCamera {
            rotation: self.rotation,
            centre: self.centre,
            centre_rest: self.centre_rest,
            ..*given
        }
    }

    /// Returns the refined pose; `given` is the camera before refinement. Without a step, the result
    /// is exactly the pose of `given`.
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

    /// Returns all numbers in the order of the fields.
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

    /// Creates a pose from the result of [`Self::to_words`].
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
        // With weights, the view counts as visited, so its pose is read from the numbers for kernels.
        refined.weights = [0.1, 0.1];
        let back = refined.pose(&camera);
        assert!(back.centre().distance(eye) < 1e-6);
        assert!(back.rotation.angle_between(pose.rotation) < 1e-6);
    }
}
