//! Which way is up and where the ground is, from where photos were taken.
//!
//! 1. *Up* ([`up_of_poses`]): at right angles to the cameras' x axes, which are level for an untilted camera,
//!    as far as they agree (least squares), towards the mean of their negative y axes.
//! 2. *Centre*: the point nearest to all optical axes.
//! 3. *Ground*: heights of solid Gaussians that are below the cameras and about the centre, no farther from it than
//!    the cameras are; the slab of a fiftieth of their range with most opacity. Thrice the plane through the
//!    slab's Gaussians is fitted again (least squares), if it is tilted by less than ten degrees from up.
//! 4. Up becomes an axis, the ground its zero, and the point of the ground below the centre the origin.

use super::condition::sigmoid;
use crate::similarity::Similarity;
use crate::{Camera, Error, Pose, Result, Splats, without_far_off};
use glam::{DMat3, DQuat, DVec3};
use serde::{Deserialize, Serialize};

/// Weight of the mean of the cameras' up axes relative to their right axes, which are level for an untilted camera at
/// any downward angle.
const MEAN_UP: f64 = 1e-3;

/// Slabs that heights are sorted into.
const SLABS: usize = 50;

/// A plane tilted by more than this cosine from up is no ground.
const LEVEL: f64 = 0.985;

/// Axis that is to be up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up {
    /// y points down, as in COLMAP and in files of 3DGS.
    #[default]
    MinusY,
    /// As in most viewers' worlds.
    Y,
    /// As in CAD, Blender and robotics.
    Z,
}

impl Up {
    fn direction(self) -> DVec3 {
        match self {
            Self::MinusY => DVec3::NEG_Y,
            Self::Y => DVec3::Y,
            Self::Z => DVec3::Z,
        }
    }
}

/// `v v^T`.
fn outer(v: DVec3) -> DMat3 {
    DMat3::from_cols(v * v.x, v * v.y, v * v.z)
}

/// Which way is up for these cameras, of length 1.
pub fn up_of_poses(poses: &[Pose]) -> DVec3 {
    let count = poses.len().max(1) as f64;
    let axis = |pose: &Pose, row: usize| pose.rotation_matrix().transpose().col(row);
    let mean = -poses.iter().map(|pose| axis(pose, 1)).sum::<DVec3>() / count;
    let level = poses
        .iter()
        .map(|pose| outer(axis(pose, 0)) * (1.0 / count));
    let level = level.fold(DMat3::from_diagonal(DVec3::splat(MEAN_UP)), |sum, x| {
        sum + x
    });
    (level.inverse() * mean)
        .try_normalize()
        .unwrap_or(DVec3::NEG_Y)
}

/// The point nearest to the optical axes of these cameras; ahead of the first where they are parallel.
fn centre_of_poses(poses: &[Pose]) -> DVec3 {
    let (mut matrix, mut right, mut mean) = (DMat3::ZERO, DVec3::ZERO, DVec3::ZERO);
    for pose in poses {
        let across = DMat3::IDENTITY - outer(pose.rotation_matrix().transpose().col(2));
        matrix += across;
        right += across * pose.centre();
        mean += pose.centre() / poses.len() as f64;
    }
    match matrix.determinant().abs() > 1e-6 * poses.len() as f64 {
        true => matrix.inverse() * right,
        false => {
            mean + poses
                .first()
                .map_or(DVec3::Z, |pose| pose.rotation_matrix().transpose().col(2))
        }
    }
}

/// A plane: points p with `normal . p == height`.
struct Plane {
    normal: DVec3,
    height: f64,
}

/// The move that puts up on `wanted`, the ground on its zero, and the scene's centre above the origin.
///
/// # Errors
/// There are no cameras.
pub fn orient(splats: &Splats, cameras: &[Camera], wanted: Up) -> Result<Similarity> {
    let poses = cameras.iter().map(|camera| camera.camera_from_world);
    let poses = without_far_off(poses.collect());
    if poses.is_empty() {
        return Err(
            Error::input("the up direction is unknown: there are no cameras")
                .hint("name the capture that the splats were trained on with --capture"),
        );
    }
    let up = up_of_poses(&poses);
    let centre = centre_of_poses(&poses);
    let plane = ground(splats, &poses, up, centre);
    let rotation = DQuat::from_rotation_arc(plane.normal, wanted.direction());
    let below = centre - plane.normal * (centre.dot(plane.normal) - plane.height);
    let turn = Similarity::rotation(rotation.normalize());
    Ok(Similarity {
        translation: (-turn.point(below)).to_array(),
        ..turn
    })
}

/// The ground, or the level plane through the centre where nothing solid is below the cameras.
fn ground(splats: &Splats, poses: &[Pose], up: DVec3, centre: DVec3) -> Plane {
    let flat = |offset: DVec3| (offset - up * offset.dot(up)).length();
    let eyes: Vec<DVec3> = poses.iter().map(Pose::centre).collect();
    let radius = eyes
        .iter()
        .map(|eye| flat(*eye - centre))
        .fold(0.0, f64::max);
    let eye_height = eyes.iter().map(|eye| eye.dot(up)).sum::<f64>() / eyes.len() as f64;
    let solid: Vec<(DVec3, f64)> = (0..splats.len())
        .map(|i| {
            (
                DVec3::from(splats.means[i].map(f64::from)),
                sigmoid(splats.opacities[i].into()),
            )
        })
        .filter(|(p, opacity)| p.is_finite() && *opacity >= 0.5)
        .filter(|(p, _)| p.dot(up) < eye_height && flat(*p - centre) <= radius)
        .collect();
    let mut heights: Vec<f64> = solid.iter().map(|(p, _)| p.dot(up)).collect();
    heights.sort_by(f64::total_cmp);
    // One in a hundred is below the ground: floaters and what shines through.
    let (Some(&lowest), Some(&highest)) = (heights.get(heights.len() / 100), heights.last()) else {
        return Plane {
            normal: up,
            height: centre.dot(up),
        };
    };
    let slab = ((highest - lowest) / SLABS as f64).max(f64::MIN_POSITIVE);
    let mut weights = [0.0; SLABS];
    for (p, opacity) in &solid {
        let at = (p.dot(up) - lowest) / slab;
        if at >= 0.0 {
            weights[(at as usize).min(SLABS - 1)] += opacity;
        }
    }
    let fullest = (0..SLABS).fold(0, |best, at| {
        if weights[at] > weights[best] {
            at
        } else {
            best
        }
    });
    let mut plane = Plane {
        normal: up,
        height: lowest + (fullest as f64 + 0.5) * slab,
    };
    for _ in 0..3 {
        let Some(fitted) = fit(&solid, &plane, slab) else {
            break;
        };
        if fitted.normal.dot(up) < LEVEL {
            break;
        }
        plane = fitted;
    }
    plane
}

/// The plane through what is within `slab` of `plane`: height over its two axes, least squares.
fn fit(solid: &[(DVec3, f64)], plane: &Plane, slab: f64) -> Option<Plane> {
    let (x, y) = plane.normal.any_orthonormal_pair();
    let (mut matrix, mut right) = (DMat3::ZERO, DVec3::ZERO);
    for (p, weight) in solid {
        let height = p.dot(plane.normal);
        if (height - plane.height).abs() <= slab {
            let row = DVec3::new(p.dot(x), p.dot(y), 1.0);
            matrix += outer(row) * *weight;
            right += row * (height * weight);
        }
    }
    let scale = matrix.z_axis.z.max(f64::MIN_POSITIVE);
    let solution = (matrix * (1.0 / scale)).inverse() * (right / scale);
    // height = a x + b y + c: the normal is (-a, -b, 1).
    let normal = plane.normal - x * solution.x - y * solution.y;
    let length = normal.length();
    (solution.is_finite() && length > 0.0).then(|| Plane {
        normal: normal / length,
        height: solution.z / length,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A floor, tilted, with a thing on it and dust below, seen by cameras around.
    #[test]
    fn a_tilted_floor_becomes_level_at_zero_under_what_cameras_look_at() {
        let tilt = DQuat::from_axis_angle(DVec3::new(0.4, 0.1, 0.9).normalize(), 0.7);
        let up = tilt * DVec3::NEG_Y;
        let offset = DVec3::new(3.0, -1.0, 2.0);
        let mut splats = Splats::empty(0);
        let mut put = |p: DVec3| {
            splats
                .means
                .push((tilt * p + offset).to_array().map(|v| v as f32));
            splats.scales.push([-4.0; 3]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(3.0);
            splats.sh0.push([0.0; 3]);
        };
        for i in 0..40 {
            for j in 0..40 {
                put(DVec3::new(
                    f64::from(i - 20) * 0.1,
                    0.0,
                    f64::from(j - 20) * 0.1,
                ));
            }
        }
        for i in 0..200 {
            put(DVec3::new(
                0.2 * f64::from(i).sin(),
                -0.005 * f64::from(i),
                0.2 * f64::from(i).cos(),
            ));
        }
        put(DVec3::new(0.0, 4.0, 0.0));
        let cameras: Vec<Camera> = (0..8)
            .map(|i| {
                let (sin, cos) = (f64::from(i) * 0.785).sin_cos();
                let eye = tilt * DVec3::new(3.0 * cos, -1.5, 3.0 * sin) + offset;
                let target = tilt * DVec3::new(0.0, -0.5, 0.0) + offset;
                Camera::pinhole(64, 48, 60.0, Pose::look_at(eye, target, up))
            })
            .collect();
        for (wanted, axis, sign) in [(Up::MinusY, 1, -1.0), (Up::Y, 1, 1.0), (Up::Z, 2, 1.0)] {
            let mut moved = splats.clone();
            let similarity = orient(&splats, &cameras, wanted).unwrap();
            similarity.apply(&mut moved);
            for mean in &moved.means[..1600] {
                assert!(mean[axis].abs() < 1e-3, "{wanted:?} {mean:?}");
            }
            // The top of the thing is up, above the origin.
            let top = moved.means[1799];
            assert!(
                (top[axis] * sign - 0.995).abs() < 0.01,
                "{wanted:?} {top:?}"
            );
            let up = up_of_poses(
                &cameras
                    .iter()
                    .map(|c| similarity.camera(c).camera_from_world)
                    .collect::<Vec<_>>(),
            );
            assert!((up[axis] * f64::from(sign) - 1.0).abs() < 1e-3, "{up}");
        }
        assert!(
            orient(&splats, &[], Up::Y)
                .unwrap_err()
                .hint_text()
                .is_some()
        );
        // Where nothing is there, the centre is the origin.
        let alone = orient(&Splats::empty(0), &cameras, Up::MinusY).unwrap();
        assert!(
            alone
                .point(tilt * DVec3::new(0.0, -0.5, 0.0) + offset)
                .length()
                < 1e-6
        );
    }
}
