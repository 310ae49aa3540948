//! Which capture a run is of, so that it does not go on with another.

use crc32fast::Hasher;
use dapple_scene::{Dataset, Error, Result};
use serde::{Deserialize, Serialize};

/// What is remembered of a capture. Pixels are not: hashing a thousand photos takes longer than
/// going on is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureIdentity {
    /// Number of photos.
    pub photos: u64,
    /// CRC-32 of their names and sizes, in order.
    pub names_and_sizes: u32,
    /// CRC-32 of their poses and intrinsics as trained on, in order.
    pub cameras: u32,
}

impl CaptureIdentity {
    /// Of a capture as it was loaded.
    pub fn of(dataset: &Dataset) -> Self {
        let (mut names, mut cameras) = (Hasher::new(), Hasher::new());
        for view in &dataset.views {
            names.update(&(view.name.len() as u64).to_le_bytes());
            names.update(view.name.as_bytes());
            for size in view.photo.size() {
                names.update(&size.to_le_bytes());
            }
            let camera = &view.camera;
            let pose = &camera.camera_from_world;
            let lens = [camera.fx, camera.fy, camera.cx, camera.cy];
            let (rotation, translation) = (pose.rotation.to_array(), pose.translation.to_array());
            for number in lens.iter().chain(&rotation).chain(&translation) {
                cameras.update(&number.to_le_bytes());
            }
        }
        Self {
            photos: dataset.views.len() as u64,
            names_and_sizes: names.finalize(),
            cameras: cameras.finalize(),
        }
    }

    /// Whether a run of this capture can go on with `other`.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, other: &Self) -> Result<()> {
        let differs = if self.photos != other.photos {
            format!("{} photos, not {}", self.photos, other.photos)
        } else if self.names_and_sizes != other.names_and_sizes {
            "photos of other names or sizes".to_owned()
        } else if self.cameras != other.cameras {
            "other camera poses or focal lengths".to_owned()
        } else {
            return Ok(());
        };
        Err(
            Error::input(format!("this run is of another capture: of {differs}")).hint(
                "give the capture that the run began with, unchanged: `dapple train SCENE --resume OUT`",
            ),
        )
    }
}
