//! Refined poses of a run, and the distance between two sets of poses.

use crate::Trainer;
use dapple_engine::RefinedPose;
use dapple_scene::{Camera, Pose, Result};
use glam::{DQuat, DVec3, DVec4};
use serde::{Deserialize, Serialize};

/// Distance of poses from true ones, after both worlds are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoseErrors {
    /// Poses compared.
    pub poses: usize,
    /// Mean angle, degrees.
    pub degrees: f64,
    /// Mean distance of centres, world units.
    pub distance: f64,
}

impl PoseErrors {
    /// Compares pairs (found, true); `None` without pairs.
    ///
    /// The worlds are aligned by the rigid motion that the poses agree on. Its rotation is the mean of those between
    /// the cameras of a pair, as the mean of their quaternions (Markley et al. 2007, to first order). Its translation
    /// is that between the centres' means.
    pub fn between(pairs: &[(Pose, Pose)]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let n = pairs.len() as f64;
        // From the found world to the true one: R_true Q = R_found.
        let turns = pairs
            .iter()
            .map(|(found, truth)| truth.rotation.conjugate() * found.rotation);
        let sum = turns.fold(DVec4::ZERO, |sum, turn| {
            let turn = DVec4::from(turn);
            if sum.dot(turn) < 0.0 {
                sum - turn
            } else {
                sum + turn
            }
        });
        let q = DQuat::from_vec4(sum).normalize();
        let moved = |found: &Pose| q * found.centre();
        let gaps = pairs
            .iter()
            .map(|(found, truth)| truth.centre() - moved(found));
        let shift = gaps.clone().sum::<DVec3>() / n;
        let distance = gaps.map(|gap| (gap - shift).length()).sum::<f64>() / n;
        let angle =
            |(found, truth): &(Pose, Pose)| (truth.rotation * q).angle_between(found.rotation);
        let degrees = pairs.iter().map(angle).sum::<f64>().to_degrees() / n;
        Some(Self {
            poses: pairs.len(),
            degrees,
            distance,
        })
    }

    /// Compares poses of the same name by [`Self::between`].
    pub fn by_name(found: &[(String, Pose)], truth: &[(String, Pose)]) -> Option<Self> {
        let of = |name: &str| truth.iter().find(|(other, _)| other == name);
        let pairs = found
            .iter()
            .filter_map(|(name, pose)| of(name).map(|(_, truth)| (*pose, *truth)));
        Self::between(&pairs.collect::<Vec<_>>())
    }
}

impl Trainer {
    /// Returns the training photos, by name, with their refined cameras.
    ///
    /// # Errors
    /// The engine fails.
    pub fn cameras(&mut self) -> Result<Vec<(String, Camera)>> {
        let poses = match self.failed_poses() {
            Some(poses) => poses.to_vec(),
            None => {
                self.wait()?;
                self.run.view_state()?.poses
            }
        };
        Ok(placed(self.given_cameras(), &poses))
    }
}

fn placed(given: &[(String, Camera)], poses: &[RefinedPose]) -> Vec<(String, Camera)> {
    let at = |(i, (name, camera)): (usize, &(String, Camera))| {
        let pose = poses.get(i).map(|pose| pose.pose(camera));
        let camera = Camera {
            camera_from_world: pose.unwrap_or(camera.camera_from_world),
            ..*camera
        };
        (name.clone(), camera)
    };
    given.iter().enumerate().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_motion_of_the_world_is_no_error() {
        let world = Pose {
            rotation: DQuat::from_scaled_axis(DVec3::new(0.3, -0.2, 0.1)),
            translation: DVec3::new(1.0, 2.0, -0.5),
        };
        let truth: Vec<Pose> = (0..9)
            .map(|i| {
                let angle = f64::from(i);
                let eye = DVec3::new(4.0 * angle.cos(), 1.0, 4.0 * angle.sin());
                Pose::look_at(eye, DVec3::ZERO, DVec3::Y)
            })
            .collect();
        let in_other_world = |pose: &Pose| Pose {
            rotation: pose.rotation * world.rotation,
            translation: pose.rotation * world.translation + pose.translation,
        };
        let pairs = |turn: f64, shift: f64| {
            let off = |(i, truth): (usize, &Pose)| {
                let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                let mut found = in_other_world(truth);
                let by = DQuat::from_rotation_x(sign * turn);
                let centre = found.centre() + DVec3::Y * (sign * shift);
                found.rotation = by * found.rotation;
                found.translation = -(found.rotation * centre);
                (found, *truth)
            };
            truth.iter().enumerate().map(off).collect::<Vec<_>>()
        };
        let Some(exact) = PoseErrors::between(&pairs(0.0, 0.0)) else {
            panic!("there are poses")
        };
        assert!(exact.degrees < 1e-5 && exact.distance < 1e-9, "{exact:?}");
        let Some(off) = PoseErrors::between(&pairs(0.01, 0.05)) else {
            panic!("there are poses")
        };
        assert!((off.degrees - 0.573).abs() < 0.1, "{off:?}");
        assert!((off.distance - 0.05).abs() < 0.02, "{off:?}");
        assert!(PoseErrors::between(&[]).is_none());
    }

    #[test]
    fn poses_are_compared_with_those_of_their_name() {
        let named = |names: [&str; 3]| -> Vec<(String, Pose)> {
            let pose = |name: &&str| {
                let at = f64::from(name.as_bytes()[0]);
                let eye = DVec3::new(at.sin(), 1.0, at.cos()) * 4.0;
                (name.to_string(), Pose::look_at(eye, DVec3::ZERO, DVec3::Y))
            };
            names.iter().map(pose).collect()
        };
        let errors = PoseErrors::by_name(&named(["a", "b", "x"]), &named(["b", "c", "a"]));
        let Some(errors) = errors else {
            panic!("two have a name in common")
        };
        assert_eq!(errors.poses, 2);
        assert!(
            errors.degrees < 1e-5 && errors.distance < 1e-9,
            "{errors:?}"
        );
        assert!(PoseErrors::by_name(&named(["a", "b", "c"]), &named(["x", "y", "z"])).is_none());
    }
}
