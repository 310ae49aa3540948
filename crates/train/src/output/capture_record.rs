//! Which capture a run was trained on, as the run's folder records it: where the capture was, and what it held.
//!
//! `capture.json` has the capture's path, whole and relative to the folder, and a fingerprint. Of both paths the first
//! with a capture of that fingerprint is the run's capture, so that a run moved alone finds it, and so does a run moved
//! together with its capture.

use super::RunFolder;
use crate::StartSplats;
use crc32fast::Hasher;
use dapple_scene::{Capture, Error, Result, bounded};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The capture of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRecord {
    /// The whole path of the capture.
    pub path: PathBuf,
    /// The path relative to the run's folder.
    pub relative: PathBuf,
    /// Content of the capture.
    pub fingerprint: Fingerprint,
    /// Splats that the run started from; `None` if it started from the capture's points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartSplats>,
    /// A capture that was made of this one by adding photos. The next part of the run continues with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<PathBuf>,
}

/// Content of a capture, computed without decoding a photo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Number of photos.
    pub photos: u64,
    /// CRC-32 of their names and of their files' sizes in bytes, in order.
    pub files: u32,
    /// CRC-32 of their poses and focal lengths as `f32`, in order.
    pub cameras: u32,
}

impl Fingerprint {
    /// Computes the fingerprint of an opened capture.
    pub fn from_capture(capture: &Capture) -> Self {
        let (mut files, mut cameras) = (Hasher::new(), Hasher::new());
        for image in &capture.images {
            files.update(image.name.as_bytes());
            let size = image.folder.join(&image.file).metadata();
            files.update(&size.map_or(0, |file| file.len()).to_le_bytes());
            let camera = &image.camera;
            let pose = &camera.camera_from_world;
            let (rotation, place) = (pose.rotation.to_array(), pose.translation.to_array());
            for number in rotation.iter().chain(&place).chain(&[camera.fx, camera.fy]) {
                // Zero has one sign.
                cameras.update(&(*number as f32 + 0.0).to_le_bytes());
            }
        }
        Self {
            photos: capture.images.len() as u64,
            files: files.finalize(),
            cameras: cameras.finalize(),
        }
    }

    /// Returns the first difference in `now`, or `None` if there is none.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.photos != now.photos {
            return Some(format!("it has {} photos, not {}", now.photos, self.photos));
        }
        if self.files != now.files {
            return Some("its photos have other names or sizes".to_owned());
        }
        (self.cameras != now.cameras)
            .then(|| "its photos have other poses or focal lengths".to_owned())
    }
}

impl CaptureRecord {
    /// Creates the record of the capture at `scene` for the run in `folder`; `None` for paths that are no text.
    pub fn new(folder: &Path, scene: &Path, capture: &Capture) -> Option<Self> {
        let path = scene.canonicalize().ok()?;
        let from = folder.canonicalize().ok()?;
        let record = Self {
            relative: relative(&from, &path),
            path,
            fingerprint: Fingerprint::from_capture(capture),
            start: None,
            extended: None,
        };
        let is_text = record.path.to_str().and(record.relative.to_str()).is_some();
        is_text.then_some(record)
    }

    /// Possible paths of the capture of a run in `folder`: the recorded path, and the path relative to a run that was
    /// moved with it.
    pub fn places(&self, folder: &Path) -> Vec<PathBuf> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut places = vec![self.path.clone(), folder.join(&self.relative)];
        if let Ok(beside) = places[1].canonicalize() {
            places[1] = beside;
        }
        places.dedup();
        places
    }
}

/// `to` as seen from the folder `from`, both whole.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

impl RunFolder {
    /// Returns the path of the capture record.
    pub fn capture_path(&self) -> PathBuf {
        self.path().join("capture.json")
    }

    /// Writes `capture.json`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_capture(&self, record: &CaptureRecord) -> Result<()> {
        self.keep_capture(record);
        self.write_record(record)
    }

    /// Records a capture that was made of the run's by adding photos.
    ///
    /// # Errors
    /// The run has no record of its capture; a file that cannot be written.
    pub fn extend_capture(&self, to: &Path) -> Result<()> {
        let path = to.canonicalize();
        let path = path.map_err(|e| Error::io("cannot open the capture", to, e))?;
        let Some(record) = self.read_capture()? else {
            return Err(Error::input("the run has no record of its capture").at_path(self.path()));
        };
        self.write_record(&CaptureRecord {
            extended: Some(path),
            ..record
        })
    }

    pub(super) fn write_record(&self, record: &CaptureRecord) -> Result<()> {
        let json = serde_json::to_vec_pretty(record).map_err(|e| {
            Error::internal(format!("the capture cannot be recorded: {e}")).caused_by(e)
        })?;
        super::folder::write_bytes(&self.capture_path(), &json)
    }

    /// The capture that the run recorded; `None` where it recorded none, as earlier versions did.
    ///
    /// # Errors
    /// A `capture.json` that records no capture.
    pub fn read_capture(&self) -> Result<Option<CaptureRecord>> {
        let path = self.capture_path();
        if !path.is_file() {
            return Ok(None);
        }
        let what = "cannot read the record of the run's capture";
        let text = bounded::read_text(what, &path, bounded::SETTINGS_BYTES)?;
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Error::input(format!("this is no record of a run's capture: {e}"))
                .at_path(&path)
                .hint("name the capture with --capture, or remove this file")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_named_as_seen_from_the_run() {
        for (from, to, wanted) in [
            ("/a/out/bird", "/a/captures/bird", "../../captures/bird"),
            ("/a/b", "/a/b/c", "c"),
            ("/a/b", "/x", "../../x"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(wanted));
        }
    }
}
