//! Perturbed poses, as in a capture with a poor reconstruction.
//!
//! Each camera is rotated about its own axes and its centre moved, normally and independently along each axis. Photos,
//! points and observations remain those of the true cameras.

use super::random::Random;
use dapple_scene::{Camera, Pose};
use glam::{DQuat, DVec3};
use serde::{Deserialize, Serialize};

/// The kind of random stream that perturbs poses.
const POSE_STREAM: u64 = 5;

/// Standard deviations of the perturbation of written poses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoseNoise {
    /// Standard deviation of the rotation about each axis, degrees.
    pub degrees: f64,
    /// Standard deviation of the centre along each axis, as a fraction of the largest distance of a
    /// camera from the cameras' mean.
    pub fraction: f64,
}

impl PoseNoise {
    /// Returns true if the written poses differ from the true ones.
    pub fn is_off(&self) -> bool {
        self.degrees == 0.0 && self.fraction == 0.0
    }
}

/// Returns the perturbed cameras.
pub(super) fn perturbed(cameras: &[Camera], noise: &PoseNoise, seed: u64) -> Vec<Camera> {
    let centre = |camera: &Camera| camera.camera_from_world.centre();
    let mean = cameras.iter().map(centre).sum::<DVec3>() / cameras.len().max(1) as f64;
    let away = cameras.iter().map(|camera| centre(camera).distance(mean));
    let unit = away.fold(0.0, f64::max);
    let moved = |(index, camera): (usize, &Camera)| {
        let mut random = Random::new(seed, POSE_STREAM, index as u64);
        let mut normal = || DVec3::new(random.normal(), random.normal(), random.normal());
        let turn = DQuat::from_scaled_axis(normal() * noise.degrees.to_radians());
        let rotation = (turn * camera.camera_from_world.rotation).normalize();
        let eye = centre(camera) + normal() * (noise.fraction * unit);
        Camera {
            camera_from_world: Pose {
                rotation,
                translation: -(rotation * eye),
            },
            ..*camera
        }
    };
    cameras.iter().enumerate().map(moved).collect()
}
