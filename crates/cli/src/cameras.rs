//! Cameras to render from: from a file, or stored next to splats.
//!
//! 1. [`read`]: one camera, as JSON.
//! 2. [`beside`]: the cameras in a `cameras.json` next to splats, written by a run of Dapple or by the trainer of the
//!    3DGS paper.

use crate::options::of_run;
use dapple::scene::{Camera, Error, Pose, Result, bounded, read_cameras};
use dapple_base::numbers::plain;
use glam::DVec3;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Default horizontal field of view, degrees: about a phone's main camera.
pub const DEFAULT_FIELD_OF_VIEW: f64 = 60.0;

/// Largest side of a rendered image, pixels.
const MAX_SIDE: u32 = 16_384;

/// Camera in a JSON file: size, focal length or field of view, and the pose, as `eye`, `target`, `up` or as
/// `rotation` (wxyz) and `translation` from world to camera.
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
            (None, degrees) => {
                let degrees = degrees.unwrap_or(DEFAULT_FIELD_OF_VIEW);
                check_field_of_view("field_of_view", degrees)?;
                focal(self.width, degrees)
            }
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
                // World axes as in COLMAP: y points down.
                let up = DVec3::from(self.up.unwrap_or([0.0, -1.0, 0.0]));
                let (eye, target) = (DVec3::from(eye), DVec3::from(target));
                if eye == target {
                    return Err(Error::input("eye and target of the camera are one point")
                        .hint("move the target to a point that the camera looks at"));
                }
                let sideways = (target - eye).cross(up).length();
                if sideways.is_nan() || sideways <= 0.0 {
                    return Err(Error::input("the camera looks along its own up direction")
                        .hint("give an up direction that does not point from eye to target"));
                }
                Ok(Pose::look_at(eye, target, up))
            }
            (None, None, Some(rotation), Some(translation)) => {
                Ok(Pose::from_wxyz(rotation, DVec3::from(translation)))
            }
            _ => Err(Error::input("the camera has no position").hint(
                "give eye and target, or rotation (w, x, y, z) and translation from world to camera",
            )),
        }
    }
}

/// Camera with its photo's name.
pub type Named = (String, Camera);

/// Returns the cameras stored next to splats, sorted by name, and their file: `cameras.json` in the folder of the
/// splats, or, as the trainer of the 3DGS paper writes it, above `point_cloud/iteration_N`.
///
/// # Errors
/// A file of that name that holds no cameras.
pub fn beside(splats: &Path) -> Result<Option<(PathBuf, Vec<Camera>)>> {
    let found = named_beside(splats)?;
    Ok(found.map(|(file, named)| (file, named.into_iter().map(|(_, camera)| camera).collect())))
}

/// Returns the cameras like [`beside`], with the photos' names.
///
/// # Errors
/// A file of that name that holds no cameras.
pub fn named_beside(splats: &Path) -> Result<Option<(PathBuf, Vec<Named>)>> {
    let own = of_run(splats, "cameras.json");
    let model = splats.parent().filter(|folder| {
        let name = |folder: &Path| folder.file_name().map(|n| n.to_string_lossy().into_owned());
        let is_iteration = name(folder).is_some_and(|n| n.starts_with("iteration_"));
        is_iteration && folder.parent().and_then(name).as_deref() == Some("point_cloud")
    });
    let above = model.and_then(|folder| Some(folder.parent()?.parent()?.join("cameras.json")));
    let Some(file) = [Some(own), above]
        .into_iter()
        .flatten()
        .find(|file| file.is_file())
    else {
        return Ok(None);
    };
    let mut named = read_cameras(&file)?;
    named.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Some((file, named)))
}

/// Refuses cameras that cannot be rendered.
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
            "the camera is invalid: it has non-finite numbers, or a focal length of 0",
        )
        .hint("check its focal lengths and its pose"));
    }
    Ok(())
}

/// Returns the camera at another size: both sides given, or one side and the other in proportion.
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

/// Returns the camera with another horizontal field of view.
///
/// # Errors
/// An angle that no pinhole camera has.
pub fn with_field_of_view(camera: &Camera, degrees: f64) -> Result<Camera> {
    check_field_of_view("--fov", degrees).map_err(|e| e.at("the options given"))?;
    let focal = focal(camera.width, degrees);
    Ok(Camera {
        fx: focal,
        fy: focal,
        ..*camera
    })
}

/// Checks a horizontal field of view in degrees; `name` is its option or key.
fn check_field_of_view(name: &str, degrees: f64) -> Result<()> {
    match (0.1..=179.0).contains(&degrees) {
        true => Ok(()),
        false => Err(
            Error::input(format!("{name} {} is not a field of view", plain(degrees)))
                .hint("give degrees between 0.1 and 179, across the picture's width"),
        ),
    }
}

/// Returns the focal length of a horizontal field of view, pixels.
pub fn focal(width: u32, degrees: f64) -> f64 {
    f64::from(width) / 2.0 / (degrees.to_radians() / 2.0).tan()
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
    fn a_field_of_view_is_that_across_the_width() {
        let camera = Camera::pinhole(100, 50, 7.0, Pose::IDENTITY);
        let wide = with_field_of_view(&camera, 90.0).unwrap();
        assert!((wide.fx - 50.0).abs() < 1e-9 && wide.fx == wide.fy);
        assert_eq!((wide.cx, wide.cy), (camera.cx, camera.cy));
    }

    #[test]
    fn impossible_cameras_are_refused() {
        for json in [
            r#"{"width": 0, "height": 100, "eye": [0, 0, -4], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "eye": [0, 0, 0], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "field_of_view": 180, "eye": [0, 0, 1], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "field_of_view": 0, "eye": [0, 0, 1], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "field_of_view": -60, "eye": [0, 0, 1], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "fx": 0, "eye": [0, 0, 1], "target": [0, 0, 0]}"#,
            r#"{"width": 9, "height": 9, "eye": [0, 0, 1]}"#,
            r#"{"width": 9, "height": 9, "rotation": [0, 0, 0, 0], "translation": [0, 0, 0]}"#,
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.hint_text().is_some(), "{json}: {error}");
        }
    }
}
