//! Initial view of a capture: its target and up direction.

use dapple_scene::edit::{Similarity, up_of_poses};
use dapple_scene::{Camera, Pose, without_far_off};
use glam::{DMat3, DVec3};

/// Initial view: target, up direction and distance.
#[derive(Debug, Clone, Copy)]
pub struct InitialView {
    /// Up direction.
    pub up: DVec3,
    /// Target.
    pub centre: DVec3,
    /// Distance from the target.
    pub distance: f64,
}

impl InitialView {
    /// Returns the initial view from the cameras of a capture, without distant cameras. `None` without cameras.
    pub fn of_cameras(cameras: &[Camera], up: Option<DVec3>) -> Option<Self> {
        let poses = cameras.iter().map(|camera| camera.camera_from_world);
        let poses = without_far_off(poses.collect());
        (!poses.is_empty()).then(|| Self::of_poses(&poses, up))
    }

    /// Returns the initial view from poses.
    ///
    /// 1. The target is the point nearest to all optical axes (least squares).
    /// 2. Up is that of [`up_of_poses`], unless `up` gives another direction.
    /// 3. The distance is the median distance of the poses from the target.
    pub fn of_poses(poses: &[Pose], up: Option<DVec3>) -> Self {
        let count = poses.len().max(1) as f64;
        let forward = |pose: &Pose| pose.rotation_matrix().transpose().col(2);
        let centre = poses.iter().map(Pose::centre).sum::<DVec3>() / count;
        let (mut matrix, mut right) = (DMat3::ZERO, DVec3::ZERO);
        for pose in poses {
            let axis = forward(pose);
            let across =
                DMat3::IDENTITY - DMat3::from_cols(axis * axis.x, axis * axis.y, axis * axis.z);
            matrix += across;
            right += across * pose.centre();
        }
        let target = if matrix.determinant().abs() > 1e-6 * count {
            matrix.inverse() * right
        } else {
            // Parallel axes have no nearest point: use one a little ahead.
            centre + poses.first().map_or(DVec3::Z, forward)
        };
        let mut far: Vec<f64> = poses.iter().map(|p| p.centre().distance(target)).collect();
        far.sort_by(f64::total_cmp);
        let distance = far.get(far.len() / 2).copied().unwrap_or(1.0);
        Self {
            up: up
                .and_then(DVec3::try_normalize)
                .unwrap_or_else(|| up_of_poses(poses)),
            centre: target,
            distance: distance.max(1e-6),
        }
    }

    /// Changes the origin of the coordinates.
    pub fn count_from(&mut self, origin: DVec3) {
        self.centre -= origin;
    }

    /// Applies the motion of the splats.
    pub fn go(&mut self, way: &Similarity) {
        self.centre = way.point(self.centre);
        self.up = way.quat() * self.up;
        self.distance *= way.scale;
    }
}
