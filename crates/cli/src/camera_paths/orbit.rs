//! Orbit of cameras around one point, and the sector of the orbit that a capture covers.

use super::Seen;
use crate::cameras::{DEFAULT_FIELD_OF_VIEW, focal};
use dapple::live::InitialView;
use dapple::scene::{Camera, Error, Lens, Pose, Result, Splats};
use dapple_base::quantiles;
use glam::{DQuat, DVec3};
use std::f64::consts::TAU;

/// Least angle of an arc, degrees: a smaller one shows no depth.
const LEAST_ARC: f64 = 20.0;

/// Part of the sector that an arc omits at each end, where few cameras have seen what it shows.
const MARGIN: f64 = 1.0 / 12.0;

/// Height and distance along an arc are means over cameras within about this part of the arc.
const SMOOTHING: f64 = 1.0 / 8.0;

/// Least share of cameras that must look towards the target, by this cosine or more, for an orbit around the target
/// to show what they saw.
const INWARD_SHARE: f64 = 0.8;
const INWARD_COSINE: f64 = 0.7;

/// The mean of the cameras' up axes has length 1 if they agree. It is near 0 if the cameras look straight down from
/// all sides, and then gives no direction.
const LEAST_UP: f64 = 0.3;

/// Position of a camera around the target.
#[derive(Debug, Clone, Copy)]
struct Stand {
    /// Angle around up, radians in 0..2 pi, from the first camera.
    azimuth: f64,
    /// Distance from the axis, world units.
    radius: f64,
    /// Height above the target, world units.
    height: f64,
}

/// Orbit of cameras around one point.
#[derive(Debug, Clone)]
pub struct CameraOrbit {
    target: DVec3,
    up: DVec3,
    /// Agreement of the cameras on up, 0 to 1.
    agreement: f64,
    /// Unit vector towards azimuth 0, at right angles to up.
    side: DVec3,
    /// Positions of the cameras; at least one.
    stands: Vec<Stand>,
    /// Size and intrinsics of the cameras.
    like: Camera,
}

/// Part of an orbit that cameras cover, radians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sector {
    /// Start.
    pub from: f64,
    /// Extent: the whole turn without the widest gap between neighbours.
    pub span: f64,
}

impl CameraOrbit {
    /// Returns the orbit fitted to the poses of a capture.
    ///
    /// Target and up are those of [`InitialView::of_poses`]. The orbit starts at the first camera's azimuth.
    pub fn of_poses(seen: &Seen) -> Self {
        let poses = &seen.poses;
        let count = poses.len().max(1) as f64;
        let axis = |pose: &Pose, row: usize| pose.rotation_matrix().transpose().col(row);
        let mean_up = -poses.iter().map(|pose| axis(pose, 1)).sum::<DVec3>() / count;
        let InitialView {
            centre: target, up, ..
        } = InitialView::of_poses(poses, seen.up);
        let flat = |offset: DVec3| offset - up * offset.dot(up);
        let side = poses
            .first()
            .and_then(|pose| flat(pose.centre() - target).try_normalize())
            .unwrap_or_else(|| up.any_orthonormal_vector());
        let across = up.cross(side);
        let stand = |pose: &Pose| {
            let offset = pose.centre() - target;
            Stand {
                azimuth: offset.dot(across).atan2(offset.dot(side)).rem_euclid(TAU),
                radius: flat(offset).length(),
                height: offset.dot(up),
            }
        };
        Self {
            target,
            up,
            agreement: if seen.up.is_some() {
                1.0
            } else {
                mean_up.length()
            },
            side,
            stands: poses.iter().map(stand).collect(),
            like: seen.like,
        }
    }

    /// Returns an orbit around splats without cameras. Centre and size are medians, so that distant background does
    /// not count.
    ///
    /// # Errors
    /// There are no splats.
    pub fn of_splats(splats: &Splats, up: DVec3) -> Result<Self> {
        if splats.is_empty() {
            return Err(Error::input("there are no splats to orbit"));
        }
        let median = |values: Vec<f64>| quantiles::median(values).unwrap_or_default();
        let axis = |k: usize| median(splats.means.iter().map(|m| f64::from(m[k])).collect());
        let target = DVec3::new(axis(0), axis(1), axis(2));
        let distances = splats
            .means
            .iter()
            .map(|m| DVec3::from(m.map(f64::from)).distance(target));
        let radius = median(distances.collect()).max(1e-6);
        let front = if up.z.abs() > 0.9 {
            DVec3::NEG_Y
        } else {
            DVec3::NEG_Z
        };
        let side = (front - up * front.dot(up)).normalize();
        let like = Camera {
            lens: Lens::Pinhole,
            ..Camera::pinhole(
                1280,
                720,
                focal(1280, DEFAULT_FIELD_OF_VIEW),
                Pose::IDENTITY,
            )
        };
        Ok(Self {
            target,
            up,
            agreement: 1.0,
            side,
            stands: vec![Stand {
                azimuth: 0.0,
                radius: 3.0 * radius,
                height: radius,
            }],
            like,
        })
    }

    /// Returns the target of the cameras, the up direction, and the median distance from the target.
    pub fn stance(&self) -> (DVec3, DVec3, f64) {
        let mut far: Vec<f64> = self
            .stands
            .iter()
            .map(|stand| stand.radius.hypot(stand.height))
            .collect();
        far.sort_by(f64::total_cmp);
        let distance = far.get(far.len() / 2).copied().unwrap_or(1.0);
        (self.target, self.up, distance.max(1e-6))
    }

    /// Returns the sector that the cameras cover.
    pub fn sector(&self) -> Sector {
        let mut azimuths: Vec<f64> = self.stands.iter().map(|stand| stand.azimuth).collect();
        azimuths.sort_by(f64::total_cmp);
        let first = azimuths.first().copied().unwrap_or(0.0);
        let next = azimuths.iter().skip(1).copied().chain([first + TAU]);
        let gaps = azimuths.iter().zip(next).map(|(&a, b)| (b - a, b));
        let (gap, from) = gaps
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((TAU, first));
        Sector {
            from: from.rem_euclid(TAU),
            span: (TAU - gap).max(0.0),
        }
    }

    /// Returns true if the cameras look at the orbit's centre and agree on the up direction.
    pub fn looks_inward(&self, poses: &[Pose]) -> bool {
        let inward = |pose: &&Pose| {
            let forward = pose.rotation_matrix().transpose().col(2);
            let towards = (self.target - pose.centre()).normalize_or_zero();
            forward.dot(towards) >= INWARD_COSINE
        };
        let share = poses.iter().filter(inward).count() as f64 / poses.len().max(1) as f64;
        share >= INWARD_SHARE && self.agreement >= LEAST_UP
    }

    /// Returns `frames` cameras, evenly around, at the cameras' mean distance and height.
    pub fn orbit(&self, frames: u32) -> Vec<Camera> {
        let count = self.stands.len().max(1) as f64;
        let mean = |of: fn(&Stand) -> f64| self.stands.iter().map(of).sum::<f64>() / count;
        let (radius, height) = (mean(|s| s.radius), mean(|s| s.height));
        (0..frames)
            .map(|i| self.camera(TAU * f64::from(i) / f64::from(frames), radius, height))
            .collect()
    }

    /// Returns `frames` cameras from near one end of the sector to near the other, at the distance and height of the
    /// nearby cameras.
    pub fn arc(&self, frames: u32) -> Vec<Camera> {
        let sector = self.sector();
        let span = ((1.0 - 2.0 * MARGIN) * sector.span).max(LEAST_ARC.to_radians());
        let from = sector.from - (span - sector.span) / 2.0;
        let width = SMOOTHING * span;
        (0..frames)
            .map(|i| {
                let part = match frames {
                    1 => 0.5,
                    _ => f64::from(i) / f64::from(frames - 1),
                };
                let azimuth = from + part * span;
                let (radius, height) = self.nearby(azimuth, width);
                self.camera(azimuth, radius, height)
            })
            .collect()
    }

    /// Returns distance and height of the cameras near an azimuth, weighted by a Gaussian of this width, radians.
    fn nearby(&self, azimuth: f64, width: f64) -> (f64, f64) {
        let (mut sum, mut radius, mut height) = (0.0, 0.0, 0.0);
        for stand in &self.stands {
            let turn = (stand.azimuth - azimuth).rem_euclid(TAU);
            let off = turn.min(TAU - turn) / width;
            // The weight of distant cameras is nearly 0, but positive for directions without other cameras.
            let weight = (-0.5 * off * off).exp() + 1e-9;
            sum += weight;
            radius += weight * stand.radius;
            height += weight * stand.height;
        }
        (radius / sum, height / sum)
    }

    fn camera(&self, azimuth: f64, radius: f64, height: f64) -> Camera {
        let arm = self.side * radius + self.up * height;
        let eye = self.target + DQuat::from_axis_angle(self.up, azimuth) * arm;
        Camera {
            camera_from_world: Pose::look_at(eye, self.target, self.up),
            ..self.like
        }
    }
}

/// `v v^T`.
#[cfg(test)]
mod tests {
    use super::super::{CameraPath, choose, seen};
    use super::*;

    const TARGET: DVec3 = DVec3::new(1.0, 2.0, 3.0);

    /// Cameras at these azimuths, degrees, looking at the target, up against y.
    fn around(degrees: impl IntoIterator<Item = f64>) -> Seen {
        let look = |degrees: f64| {
            let (sin, cos) = degrees.to_radians().sin_cos();
            let eye = TARGET + DVec3::new(3.0 * cos, -1.0, 3.0 * sin);
            Pose::look_at(eye, TARGET, DVec3::NEG_Y)
        };
        seen(degrees.into_iter().map(look).collect())
    }

    #[test]
    fn a_ring_goes_around_what_the_cameras_look_at() {
        let up = DVec3::new(0.1, -1.0, 0.2).normalize();
        let look = |offset: DVec3| Pose::look_at(TARGET + offset, TARGET, up);
        let poses = [
            look(DVec3::new(3.0, -1.0, 0.0)),
            look(DVec3::new(0.0, -1.5, 3.0)),
            look(DVec3::new(-2.0, -1.0, -2.0)),
        ];
        let ring = CameraOrbit::of_poses(&seen(poses.to_vec()));
        assert!(ring.target.distance(TARGET) < 1e-9);
        let frames = ring.orbit(8);
        assert_eq!(frames.len(), 8);
        for camera in &frames {
            let seen = camera.camera_from_world.transform(TARGET);
            assert!(seen.x.abs() < 1e-9 && seen.y.abs() < 1e-9 && seen.z > 1.0);
        }
        let eyes: Vec<DVec3> = frames
            .iter()
            .map(|c| c.camera_from_world.centre())
            .collect();
        assert!(eyes[0].distance(eyes[4]) > eyes[0].distance(eyes[1]));
    }

    #[test]
    fn an_arc_stays_where_the_cameras_stand() {
        // From 300 over 0 to 40 degrees: the sector contains the wrap of the angle.
        let one_side = around([300.0, 330.0, 0.0, 20.0, 40.0]);
        let ring = CameraOrbit::of_poses(&one_side);
        assert!((ring.sector().span.to_degrees() - 100.0).abs() < 0.1);
        let arc = ring.arc(11);
        let (sin, cos) = 350f64.to_radians().sin_cos();
        let middle = DVec3::new(cos, 0.0, sin);
        for camera in &arc {
            let eye = camera.camera_from_world.centre() - TARGET;
            let flat = DVec3::new(eye.x, 0.0, eye.z);
            // 350 degrees is the middle; half of 100 degrees, without the margin, to either side.
            let off = flat.normalize().dot(middle).acos().to_degrees();
            assert!(off < 41.8, "{off}");
            assert!((flat.length() - 3.0).abs() < 0.01 && (eye.y + 1.0).abs() < 0.02);
        }
        let ends = [&arc[0], &arc[10]].map(|camera| camera.camera_from_world.centre());
        assert!(ends[0].distance(ends[1]) > 3.9, "both ends are reached");
        let (path, why) = choose(&one_side, &ring);
        assert_eq!(path, CameraPath::Arc);
        assert!(why.contains("100 degrees"), "{why}");
    }

    #[test]
    fn the_path_is_chosen_by_what_was_photographed() {
        let all_round = around((0..12).map(|i| f64::from(i) * 30.0));
        let chosen = |seen: &Seen| choose(seen, &CameraOrbit::of_poses(seen)).0;
        assert_eq!(chosen(&all_round), CameraPath::Orbit);
        // From the middle of an indoor scene to its walls.
        let look = |i: i32| {
            let (sin, cos) = (f64::from(i) * 0.5).sin_cos();
            let outwards = DVec3::new(cos, 0.0, sin);
            Pose::look_at(0.3 * outwards, 5.0 * outwards, DVec3::NEG_Y)
        };
        assert_eq!(
            chosen(&seen((0..12).map(look).collect())),
            CameraPath::Capture
        );
        // Straight down, back and forth: up is not defined.
        let down = |i: i32| {
            let eye = DVec3::new(f64::from(i % 4), -5.0, f64::from(i / 4));
            let heading = if i % 2 == 0 { DVec3::X } else { DVec3::NEG_X };
            Pose::look_at(eye, eye + DVec3::Y, heading)
        };
        assert_eq!(
            chosen(&seen((0..12).map(down).collect())),
            CameraPath::Capture
        );
        assert_eq!(chosen(&around([10.0])), CameraPath::Arc);
        assert_eq!(CameraOrbit::of_poses(&around([10.0])).arc(3).len(), 3);
    }

    #[test]
    fn splats_alone_are_gone_around_with_their_up_upwards() {
        let splats = Splats {
            means: vec![[1.0, 2.0, 3.0], [2.0, 2.0, 3.0], [0.0, 2.0, 3.0]],
            ..Splats::default()
        };
        for up in [DVec3::NEG_Y, DVec3::Z, DVec3::X] {
            for camera in CameraOrbit::of_splats(&splats, up).unwrap().orbit(5) {
                let pose = camera.camera_from_world;
                assert!((pose.rotation * up).y < -0.5, "{up}");
                assert!((pose.centre() - TARGET).dot(up) > 0.0, "{up}");
            }
        }
    }
}
