//! Cameras to render from: a file, or a ring around the scene.

use dapple::scene::{Camera, Error, Lens, Pose, Result, Splats, bounded};
use glam::{DMat3, DQuat, DVec3};
use serde::Deserialize;
use std::path::Path;

/// Horizontal field of view where nothing says otherwise, degrees: about a phone's main camera.
const DEFAULT_FIELD_OF_VIEW: f64 = 60.0;

/// Largest side of an image that is rendered, pixels.
const MAX_SIDE: u32 = 16_384;

/// A camera as a JSON file describes it: size, focal length or field of view, and where it stands,
/// as `eye`, `target`, `up` or as `rotation` (wxyz) and `translation` from world to camera.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CameraFile {
    width: u32,
    height: u32,
    fx: Option<f64>,
    fy: Option<f64>,
    cx: Option<f64>,
    cy: Option<f64>,
    field_of_view: Option<f64>,
    eye: Option<[f64; 3]>,
    target: Option<[f64; 3]>,
    up: Option<[f64; 3]>,
    rotation: Option<[f64; 4]>,
    translation: Option<[f64; 3]>,
}

/// Reads a camera from a JSON file.
pub fn read(path: &Path) -> Result<Camera> {
    let most = bounded::SETTINGS_BYTES;
    let text = bounded::read_text("cannot read the camera", path, most)?;
    let file: CameraFile = serde_json::from_str(&text).map_err(|e| {
        Error::input(format!("the camera file is not valid: {e}"))
            .at(format!("{}, line {}", path.display(), e.line()))
            .hint("`dapple render --help` shows an example")
    })?;
    file.camera().map_err(|e| e.at_path(path))
}

impl CameraFile {
    fn camera(&self) -> Result<Camera> {
        let fx = match (self.fx, self.field_of_view) {
            (Some(fx), None) => fx,
            (None, degrees) => focal(self.width, degrees.unwrap_or(DEFAULT_FIELD_OF_VIEW)),
            (Some(_), Some(_)) => {
                return Err(Error::input("the camera has both fx and field_of_view")
                    .hint("give one of the two"));
            }
        };
        let centred = Camera::pinhole(self.width, self.height, fx, self.pose()?);
        let camera = Camera {
            fy: self.fy.unwrap_or(centred.fy),
            cx: self.cx.unwrap_or(centred.cx),
            cy: self.cy.unwrap_or(centred.cy),
            ..centred
        };
        check(&camera)?;
        Ok(camera)
    }

    fn pose(&self) -> Result<Pose> {
        match (self.eye, self.target, self.rotation, self.translation) {
            (Some(eye), Some(target), None, None) => {
                // World axes as COLMAP has them: y points down.
                let up = DVec3::from(self.up.unwrap_or([0.0, -1.0, 0.0]));
                let (eye, target) = (DVec3::from(eye), DVec3::from(target));
                let sideways = (target - eye).cross(up).length();
                if sideways.is_nan() || sideways <= 0.0 {
                    return Err(Error::input("the camera looks along its own up direction")
                        .hint("eye and target must differ, and up must not point from one to the other"));
                }
                Ok(Pose::look_at(eye, target, up))
            }
            (None, None, Some(rotation), Some(translation)) => {
                Ok(Pose::from_wxyz(rotation, DVec3::from(translation)))
            }
            _ => Err(Error::input("the camera does not say where it stands").hint(
                "give eye and target, or rotation (w, x, y, z) and translation from world to camera",
            )),
        }
    }
}

/// Refuses what cannot be rendered.
pub fn check(camera: &Camera) -> Result<()> {
    let (w, h) = (camera.width, camera.height);
    if w == 0 || h == 0 || w > MAX_SIDE || h > MAX_SIDE {
        return Err(
            Error::input(format!("an image of {w}x{h} pixels cannot be rendered")).hint(format!(
                "both sides must be between 1 and {MAX_SIDE} pixels"
            )),
        );
    }
    let numbers = [camera.fx, camera.fy, camera.cx, camera.cy];
    let sound = numbers.iter().all(|v| v.is_finite())
        && camera.camera_from_world.is_finite()
        && camera.fx > 0.0
        && camera.fy > 0.0;
    if !sound {
        return Err(Error::input(
            "the camera is broken: numbers that are not finite, or a focal length of 0",
        )
        .hint("check its focal lengths and its pose"));
    }
    Ok(())
}

/// The camera at another size: both sides given, or one and the other in proportion.
pub fn resized(camera: &Camera, width: Option<u32>, height: Option<u32>) -> Result<Camera> {
    let scale = |value: u32, by: u32, of: u32| {
        (f64::from(value) * f64::from(by) / f64::from(of.max(1)))
            .round()
            .max(1.0) as u32
    };
    let (width, height) = match (width, height) {
        (None, None) => return Ok(*camera),
        (Some(w), Some(h)) => (w, h),
        (Some(w), None) => (w, scale(camera.height, w, camera.width)),
        (None, Some(h)) => (scale(camera.width, h, camera.height), h),
    };
    let camera = camera.resized(width, height);
    check(&camera)?;
    Ok(camera)
}

fn focal(width: u32, degrees: f64) -> f64 {
    f64::from(width) / 2.0 / (degrees.to_radians() / 2.0).tan()
}

/// A ring of cameras that look at one point.
#[derive(Debug, Clone, Copy)]
pub struct Orbit {
    target: DVec3,
    up: DVec3,
    /// From the target to the first camera.
    arm: DVec3,
    /// What the cameras see: size and intrinsics.
    like: Camera,
}

impl Orbit {
    /// The ring that the poses of a capture suggest.
    ///
    /// 1. The target is the point nearest to all optical axes (least squares).
    /// 2. Up is against the mean of the cameras' y axes.
    /// 3. Distance and height are the cameras' means; the ring starts at the first camera's side.
    ///
    /// `poses` must not be empty; `like` gives size and intrinsics.
    pub fn of_poses(poses: &[Pose], like: &Camera) -> Self {
        let count = poses.len() as f64;
        let axis = |pose: &Pose, row: usize| pose.rotation_matrix().transpose().col(row);
        let up = -poses.iter().map(|pose| axis(pose, 1)).sum::<DVec3>();
        let up = up.try_normalize().unwrap_or(DVec3::NEG_Y);
        let centre = poses.iter().map(Pose::centre).sum::<DVec3>() / count;
        let (mut matrix, mut right) = (DMat3::ZERO, DVec3::ZERO);
        for pose in poses {
            let forward = axis(pose, 2);
            let across = DMat3::IDENTITY
                - DMat3::from_cols(
                    forward * forward.x,
                    forward * forward.y,
                    forward * forward.z,
                );
            matrix += across;
            right += across * pose.centre();
        }
        let target = if matrix.determinant().abs() > 1e-6 * count {
            matrix.inverse() * right
        } else {
            // Parallel axes meet nowhere: look a little ahead.
            centre + poses.first().map_or(DVec3::Z, |pose| axis(pose, 2))
        };
        let height = (centre - target).dot(up);
        let flat = |offset: DVec3| offset - up * offset.dot(up);
        let radius = poses
            .iter()
            .map(|p| flat(p.centre() - target).length())
            .sum::<f64>()
            / count;
        let side = poses
            .first()
            .and_then(|pose| flat(pose.centre() - target).try_normalize())
            .unwrap_or_else(|| up.any_orthonormal_vector());
        Self {
            target,
            up,
            arm: side * radius + up * height,
            like: *like,
        }
    }

    /// A ring around splats of which nothing else is known: centre and size are medians, so that
    /// far-away background does not count; y points down, as COLMAP has it.
    pub fn of_splats(splats: &Splats) -> Result<Self> {
        if splats.is_empty() {
            return Err(Error::input("there are no splats to go around"));
        }
        let median = |mut values: Vec<f64>| {
            let middle = values.len() / 2;
            *values.select_nth_unstable_by(middle, f64::total_cmp).1
        };
        let axis = |k: usize| median(splats.means.iter().map(|m| f64::from(m[k])).collect());
        let target = DVec3::new(axis(0), axis(1), axis(2));
        let distances = splats
            .means
            .iter()
            .map(|m| DVec3::from(m.map(f64::from)).distance(target));
        let radius = median(distances.collect()).max(1e-6);
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
            up: DVec3::NEG_Y,
            arm: DVec3::new(0.0, -radius, -3.0 * radius),
            like,
        })
    }

    /// `frames` cameras, evenly around.
    pub fn cameras(&self, frames: u32) -> Vec<Camera> {
        (0..frames)
            .map(|i| {
                let angle = std::f64::consts::TAU * f64::from(i) / f64::from(frames);
                let eye = self.target + DQuat::from_axis_angle(self.up, angle) * self.arm;
                Camera {
                    camera_from_world: Pose::look_at(eye, self.target, self.up),
                    ..self.like
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Camera> {
        let file: CameraFile = serde_json::from_str(json).unwrap();
        file.camera()
    }

    #[test]
    fn both_ways_to_say_where_a_camera_stands_agree() {
        let looked = parse(
            r#"{"width": 200, "height": 100, "fx": 150, "eye": [0, 0, -4], "target": [0, 0, 0]}"#,
        )
        .unwrap();
        let posed = parse(
            r#"{"width": 200, "height": 100, "fx": 150, "rotation": [1, 0, 0, 0], "translation": [0, 0, 4]}"#,
        )
        .unwrap();
        let point = DVec3::new(0.3, -0.2, 1.0);
        let (a, b) = (
            looked.camera_from_world.transform(point),
            posed.camera_from_world.transform(point),
        );
        assert!(a.distance(b) < 1e-12, "{a} {b}");
        assert_eq!((looked.cx, looked.cy), (100.0, 50.0));
    }

    #[test]
    fn impossible_cameras_are_refused() {
        for json in [
            r#"{"width": 0, "height": 100, "eye": [0, 0, -4], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "eye": [0, 0, 0], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "fx": 0, "eye": [0, 0, 1], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "eye": [0, 0, 1]}"#,
            r#"{"width": 9, "height": 9, "rotation": [0, 0, 0, 0], "translation": [0, 0, 0]}"#,
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.hint_text().is_some(), "{json}: {error}");
        }
    }

    #[test]
    fn a_ring_goes_around_what_the_cameras_look_at() {
        let target = DVec3::new(1.0, 2.0, 3.0);
        let up = DVec3::new(0.1, -1.0, 0.2).normalize();
        let look = |offset: DVec3| Pose::look_at(target + offset, target, up);
        let poses = [
            look(DVec3::new(3.0, -1.0, 0.0)),
            look(DVec3::new(0.0, -1.5, 3.0)),
            look(DVec3::new(-2.0, -1.0, -2.0)),
        ];
        let ring = Orbit::of_poses(&poses, &Camera::pinhole(64, 48, 60.0, poses[0]));
        assert!(ring.target.distance(target) < 1e-9);
        let frames = ring.cameras(8);
        assert_eq!(frames.len(), 8);
        for camera in &frames {
            let seen = camera.camera_from_world.transform(target);
            assert!(seen.x.abs() < 1e-9 && seen.y.abs() < 1e-9 && seen.z > 1.0);
        }
        let eyes: Vec<DVec3> = frames
            .iter()
            .map(|c| c.camera_from_world.centre())
            .collect();
        assert!(eyes[0].distance(eyes[4]) > eyes[0].distance(eyes[1]));
    }
}
