//! Camera path of the user: keys saved by the viewer's page, as JSON.
//!
//! ```json
//! {"dapple_path": 1, "seconds": 6, "closed": false, "keys": [
//!   {"position": [0, -1, -4], "rotation": [1, 0, 0, 0], "focal": 0.9}]}
//! ```
//!
//! `position` is in world units. `rotation` is w, x, y, z from world to camera (the camera points along +z with y
//! down). `focal` is the focal length divided by the picture's height. Keys are at equal intervals of time.
//! The viewer's page computes the same curve: `path.js`.

use super::curve::Curve;
use dapple::scene::{Camera, Error, Pose, Result, bounded};
use glam::DVec3;
use serde::Deserialize;
use std::path::Path;

/// Supported version of the files.
const VERSION: u32 = 1;

/// Most keys of a path.
const MOST_KEYS: usize = 10_000;

/// Default pictures per second.
const FRAMES_PER_SECOND: f64 = 30.0;

/// Path in the format of its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPath {
    dapple_path: u32,
    seconds: f64,
    #[serde(default)]
    closed: bool,
    keys: Vec<Key>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    position: [f64; 3],
    rotation: [f64; 4],
    focal: f64,
}

impl KeyPath {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that is not a path, has another version or no keys, or has numbers that are not a camera's.
    pub fn read(path: &Path) -> Result<Self> {
        let most = bounded::SETTINGS_BYTES;
        let text = bounded::read_text("cannot read the path", path, most)?;
        Self::parse(&text).map_err(|error| error.at_path(path))
    }

    fn parse(text: &str) -> Result<Self> {
        let hint = "save one with `dapple view`; `dapple render --help` shows an example";
        let file: Self = serde_json::from_str(text)
            .map_err(|e| Error::input(format!("the file is not a camera path: {e}")).hint(hint))?;
        if file.dapple_path != VERSION {
            let what = format!(
                "version {} of the path file is not supported",
                file.dapple_path
            );
            return Err(Error::unsupported(what).hint("use a newer version of dapple"));
        }
        if file.keys.is_empty() || file.keys.len() > MOST_KEYS {
            let what = format!("a path has 1 to {MOST_KEYS} keys, not {}", file.keys.len());
            return Err(Error::input(what).hint(hint));
        }
        if !(file.seconds > 0.0 && file.seconds <= 86_400.0) {
            return Err(
                Error::input("a path takes more than 0 seconds, and at most a day").hint(hint),
            );
        }
        for (i, key) in file.keys.iter().enumerate() {
            let length: f64 = key.rotation.iter().map(|v| v * v).sum();
            let near = key.position.iter().all(|v| v.abs() <= 1e9);
            if !near || !(1e-6..=1e6).contains(&length) || !(1e-3..=1e3).contains(&key.focal) {
                let what = format!("key {} of the path is not a valid camera", i + 1);
                return Err(Error::input(what).hint(hint));
            }
        }
        Ok(file)
    }

    /// Returns the default number of pictures.
    pub fn frames(&self) -> u32 {
        // At most a day of pictures, which fits.
        (self.seconds * FRAMES_PER_SECOND).round().max(1.0) as u32
    }

    /// Returns this number of cameras along the path, of this size.
    pub fn cameras(&self, frames: u32, width: u32, height: u32) -> Vec<Camera> {
        let pose = |key: &Key| {
            let pose = Pose::from_wxyz(key.rotation, DVec3::ZERO);
            Pose {
                translation: -(pose.rotation * DVec3::from(key.position)),
                ..pose
            }
        };
        let poses: Vec<Pose> = self.keys.iter().map(pose).collect();
        let focals: Vec<f64> = self.keys.iter().map(|key| key.focal.ln()).collect();
        let curve = Curve::through(&poses, self.closed);
        let last = match self.closed {
            true => f64::from(frames),
            false => f64::from(frames.max(2) - 1),
        };
        let camera = |i: u32| {
            let part = f64::from(i) / last;
            let focal = curve.mix(part, &focals).exp() * f64::from(height);
            Camera::pinhole(width, height, focal, curve.at(part))
        };
        (0..frames).map(camera).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = r#"{"dapple_path": 1, "seconds": 2, "keys": [
        {"position": [0, 0, -4], "rotation": [1, 0, 0, 0], "focal": 1},
        {"position": [1, 0, -4], "rotation": [1, 0, 0, 0], "focal": 1},
        {"position": [2, 0, -4], "rotation": [-2, 0, 0, 0], "focal": 4}]}"#;

    #[test]
    fn a_path_goes_through_its_keys() {
        let path = KeyPath::parse(PATH).unwrap();
        assert_eq!(path.frames(), 60);
        let cameras = path.cameras(5, 100, 50);
        let centres: Vec<f64> = cameras
            .iter()
            .map(|c| c.camera_from_world.centre().x)
            .collect();
        for (i, wanted) in [(0, 0.0), (2, 1.0), (4, 2.0)] {
            assert!((centres[i] - wanted).abs() < 1e-12, "{centres:?}");
        }
        assert!((cameras[0].fx - 50.0).abs() < 1e-9 && (cameras[4].fx - 200.0).abs() < 1e-9);
        // Quaternions of opposite signs are the same rotation and do not cancel.
        assert!(cameras[3].camera_from_world.rotation.is_normalized());
        assert!(cameras[3].camera_from_world.rotation.w.abs() > 0.999);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (from, to) in [
            ("\"dapple_path\": 1", "\"dapple_path\": 2"),
            ("\"seconds\": 2", "\"seconds\": 0"),
            ("\"seconds\": 2", "\"seconds\": 1e9"),
            ("\"focal\": 4", "\"focal\": -4"),
            ("[2, 0, -4]", "[2, 0, 1e12]"),
            ("[-2, 0, 0, 0]", "[0, 0, 0, 0]"),
            ("\"keys\"", "\"beads\""),
        ] {
            let error = KeyPath::parse(&PATH.replace(from, to)).unwrap_err();
            assert!(error.hint_text().is_some(), "{to}: {error}");
        }
        assert!(KeyPath::parse(r#"{"dapple_path": 1, "seconds": 2, "keys": []}"#).is_err());
    }
}
