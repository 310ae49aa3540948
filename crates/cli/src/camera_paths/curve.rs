//! Smooth path through a capture's own cameras: every picture is close to the pose of a photo.
//!
//! 1. Order: by name, as in a video or a walk. If that path is much longer than a nearest-neighbour path, the latter.
//!    Lengths are measured in [`Metric`].
//! 2. Keys: some of the cameras, evenly along that path, fewer than pictures. Each is the mean of the cameras around
//!    it, which removes camera shake.
//! 3. A Catmull-Rom curve through the keys, for centres and quaternions; closed if the path ends near its start.

use super::Seen;
use dapple::scene::{Camera, Pose};
use glam::{DQuat, DVec3};

/// The order of names is used unless its path is longer by this factor.
const LONGER: f64 = 1.5;

/// Pictures per key, and the least number of keys if there are enough cameras.
const FRAMES_A_KEY: usize = 4;
const LEAST_KEYS: usize = 8;

/// A path is closed if its ends are within this many distances between keys.
const CLOSES: f64 = 2.0;

/// Returns `frames` cameras along the path through `seen`.
pub fn through(seen: &Seen, frames: u32) -> Vec<Camera> {
    let metric = Metric::from_poses(&seen.poses);
    let poses = in_order(&seen.poses, &metric);
    let curve = Curve::new(&poses, frames as usize, &metric);
    let last = match curve.is_closed {
        true => f64::from(frames),
        false => f64::from(frames.max(2) - 1),
    };
    (0..frames)
        .map(|i| Camera {
            camera_from_world: curve.at(f64::from(i) / last),
            ..seen.like
        })
        .collect()
}

/// Distance between poses: centres in units of the cameras' spread, rotations in radians.
struct Metric {
    per_unit: f64,
}

impl Metric {
    fn from_poses(poses: &[Pose]) -> Self {
        let mean = poses.iter().map(Pose::centre).sum::<DVec3>() / poses.len().max(1) as f64;
        let spread = poses.iter().map(|pose| pose.centre().distance(mean));
        let spread = spread.fold(0.0, f64::max);
        Self {
            per_unit: if spread > 0.0 { 1.0 / spread } else { 0.0 },
        }
    }

    fn between(&self, a: &Pose, b: &Pose) -> f64 {
        let turn = 2.0 * a.rotation.dot(b.rotation).abs().min(1.0).acos();
        self.per_unit * a.centre().distance(b.centre()) + turn
    }

    fn length(&self, poses: &[Pose]) -> f64 {
        poses
            .windows(2)
            .map(|pair| self.between(&pair[0], &pair[1]))
            .sum()
    }
}

fn in_order(poses: &[Pose], metric: &Metric) -> Vec<Pose> {
    let mut left: Vec<Pose> = poses.to_vec();
    let mut nearest = Vec::with_capacity(left.len());
    let mut next = 0;
    while !left.is_empty() {
        let here = left.remove(next);
        nearest.push(here);
        let distances = left
            .iter()
            .map(|pose| metric.between(&here, pose))
            .enumerate();
        next = distances
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |(i, _)| i);
    }
    if metric.length(poses) <= LONGER * metric.length(&nearest) {
        return poses.to_vec();
    }
    nearest
}

/// Catmull-Rom curve through poses.
pub(super) struct Curve {
    centres: Vec<DVec3>,
    /// Rotations, with neighbours in the same half of the sphere.
    rotations: Vec<DQuat>,
    is_closed: bool,
}

impl Curve {
    fn new(poses: &[Pose], frames: usize, metric: &Metric) -> Self {
        let wanted = (frames / FRAMES_A_KEY).max(LEAST_KEYS).min(poses.len());
        let steps = poses
            .windows(2)
            .map(|pair| metric.between(&pair[0], &pair[1]));
        let mut along = vec![0.0];
        along.extend(steps.scan(0.0, |sum, step| {
            *sum += step;
            Some(*sum)
        }));
        let whole = along.last().copied().unwrap_or(0.0);
        let back = match (poses.first(), poses.last()) {
            (Some(first), Some(last)) => metric.between(last, first),
            _ => 0.0,
        };
        let is_closed = wanted > 2 && back <= CLOSES * whole / wanted as f64;
        let gaps = if is_closed { wanted } else { wanted.max(2) - 1 };
        let length = if is_closed { whole + back } else { whole };
        let between = length / gaps as f64;
        let mean = |i: usize| mean_pose(poses, &along, between * i as f64, between / 2.0);
        let keys: Vec<Pose> = (0..wanted).map(mean).collect();
        Self::through(&keys, is_closed)
    }

    /// Creates the curve through these keys; at least one.
    pub(super) fn through(keys: &[Pose], is_closed: bool) -> Self {
        let mut rotations: Vec<DQuat> = keys.iter().map(|key| key.rotation).collect();
        for i in 1..rotations.len() {
            if rotations[i].dot(rotations[i - 1]) < 0.0 {
                rotations[i] = -rotations[i];
            }
        }
        Self {
            centres: keys.iter().map(Pose::centre).collect(),
            rotations,
            is_closed,
        }
    }

    /// Returns the four keys around `part` of the path, 0 to 1, and their weights.
    fn about(&self, part: f64) -> ([usize; 4], [f64; 4]) {
        let count = self.centres.len();
        let gaps = if self.is_closed {
            count
        } else {
            count.max(2) - 1
        };
        let place = part.clamp(0.0, 1.0) * gaps as f64;
        let first = (place.floor() as usize).min(gaps - 1);
        let t = place - first as f64;
        let index = |offset: isize| {
            let i = first as isize + offset;
            let count = count as isize;
            match self.is_closed {
                true => i.rem_euclid(count) as usize,
                false => i.clamp(0, count - 1) as usize,
            }
        };
        ([-1, 0, 1, 2].map(index), catmull_rom(t))
    }

    /// Returns the indices of the keys at `part` of the path.
    pub(super) fn mix(&self, part: f64, values: &[f64]) -> f64 {
        let (at, weights) = self.about(part);
        at.iter().zip(weights).map(|(&i, w)| values[i] * w).sum()
    }

    /// Returns the pose at `part` of the path, 0 to 1.
    pub(super) fn at(&self, part: f64) -> Pose {
        let (at, weights) = self.about(part);
        let centre: DVec3 = at
            .iter()
            .zip(weights)
            .map(|(&i, w)| self.centres[i] * w)
            .sum();
        // Where a closed path starts again, the other half of the sphere may be the nearer one.
        let here = self.rotations[at[1]];
        let rotation =
            at.iter()
                .zip(weights)
                .fold(DQuat::from_xyzw(0.0, 0.0, 0.0, 0.0), |sum, (&i, w)| {
                    let key = self.rotations[i];
                    sum + key * (w * if key.dot(here) < 0.0 { -1.0 } else { 1.0 })
                });
        let rotation = match rotation.length() {
            length if length > 1e-6 => rotation * (1.0 / length),
            _ => here,
        };
        Pose {
            rotation,
            translation: -(rotation * centre),
        }
    }
}

/// Returns the weights of four neighbours, `t` from the second to the third (Catmull and Rom, 1974).
fn catmull_rom(t: f64) -> [f64; 4] {
    let (t2, t3) = (t * t, t * t * t);
    [
        0.5 * (-t3 + 2.0 * t2 - t),
        0.5 * (3.0 * t3 - 5.0 * t2 + 2.0),
        0.5 * (-3.0 * t3 + 4.0 * t2 + t),
        0.5 * (t3 - t2),
    ]
}

/// Returns the mean of the poses around a place on the path, weighted by a triangle of this width; the nearest pose
/// if none is within the width.
fn mean_pose(poses: &[Pose], along: &[f64], place: f64, width: f64) -> Pose {
    let off = |i: usize| (along[i] - place).abs();
    let nearest = (0..poses.len())
        .min_by(|&a, &b| off(a).total_cmp(&off(b)))
        .unwrap_or(0);
    let (mut sum, mut centre, mut rotation) =
        (0.0, DVec3::ZERO, DQuat::from_xyzw(0.0, 0.0, 0.0, 0.0));
    for (i, pose) in poses.iter().enumerate() {
        let weight = match width > 0.0 {
            true => (1.0 - off(i) / width).max(0.0),
            false => 0.0,
        };
        let weight = if i == nearest {
            weight.max(1e-6)
        } else {
            weight
        };
        if weight > 0.0 {
            let same = pose.rotation.dot(poses[nearest].rotation) >= 0.0;
            sum += weight;
            centre += pose.centre() * weight;
            rotation += pose.rotation * if same { weight } else { -weight };
        }
    }
    let rotation = rotation.normalize();
    Pose {
        rotation,
        translation: -(rotation * (centre / sum)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen;
    use super::*;

    fn look(degrees: f64) -> Pose {
        let (sin, cos) = degrees.to_radians().sin_cos();
        Pose::look_at(
            DVec3::new(3.0 * cos, -1.0, 3.0 * sin),
            DVec3::ZERO,
            DVec3::NEG_Y,
        )
    }

    /// Returns the longest step between neighbours over the mean step, of centres.
    fn unevenness(cameras: &[Camera]) -> f64 {
        let centres: Vec<DVec3> = cameras
            .iter()
            .map(|c| c.camera_from_world.centre())
            .collect();
        let steps: Vec<f64> = centres.windows(2).map(|p| p[0].distance(p[1])).collect();
        let mean = steps.iter().sum::<f64>() / steps.len() as f64;
        steps.iter().copied().fold(0.0, f64::max) / mean
    }

    #[test]
    fn the_way_stays_close_to_the_cameras_and_is_even() {
        for (degrees, closes) in [
            (
                (0..40).map(|i| f64::from(i) * 9.0).collect::<Vec<_>>(),
                true,
            ),
            ((0..40).map(|i| f64::from(i) * 4.0).collect(), false),
        ] {
            let seen = seen(degrees.iter().map(|&d| look(d)).collect());
            let cameras = through(&seen, 60);
            assert_eq!(cameras.len(), 60);
            for camera in &cameras {
                let pose = camera.camera_from_world;
                let near = seen
                    .poses
                    .iter()
                    .map(|p| p.centre().distance(pose.centre()));
                assert!(near.fold(f64::MAX, f64::min) < 0.4);
                let middle = pose.transform(DVec3::ZERO);
                assert!(
                    middle.x.abs() < 0.2 && middle.y.abs() < 0.2 && middle.z > 2.5,
                    "{middle}"
                );
            }
            assert!(unevenness(&cameras) < 1.5);
            let ends = [0, 59].map(|i: usize| cameras[i].camera_from_world.centre());
            assert_eq!(ends[0].distance(ends[1]) < 1.0, closes);
        }
    }

    #[test]
    fn names_in_disorder_do_not_make_it_jump() {
        let mixed: Vec<Pose> = (0..40)
            .map(|i| look(f64::from(i * 17 % 40) * 4.0))
            .collect();
        let cameras = through(&seen(mixed), 80);
        assert!(unevenness(&cameras) < 3.0);
    }

    #[test]
    fn few_cameras_and_equal_ones_make_a_path_too() {
        for poses in [
            vec![look(0.0)],
            vec![look(0.0); 5],
            vec![look(0.0), look(30.0)],
        ] {
            for frames in [1, 2, 7] {
                let cameras = through(&seen(poses.clone()), frames);
                assert_eq!(cameras.len(), frames as usize);
                assert!(cameras.iter().all(|c| c.camera_from_world.is_finite()));
            }
        }
    }
}
