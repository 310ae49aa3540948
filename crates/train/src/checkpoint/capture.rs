//! Which capture a run is of, so that it does not go on with another.

use crc32fast::Hasher;
use dapple_scene::{Dataset, Error, Lens, Result};
use serde::{Deserialize, Serialize};

/// What is remembered of a capture. Pixels are not: hashing a thousand photos takes longer than
/// going on is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureIdentity {
    /// Number of photos.
    pub photos: u64,
    /// CRC-32 of their names and sizes, in order.
    pub names_and_sizes: u32,
    /// CRC-32 of their poses, intrinsics and lenses as trained on, in order.
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
            // Nothing for a pinhole: runs from before there were lenses go on.
            let model = match camera.lens {
                Lens::Pinhole => "",
                Lens::Radial(_) => "radial",
                Lens::OpenCv(_) => "opencv",
                Lens::FullOpenCv(_) => "full opencv",
                Lens::Fov(_) => "fov",
                Lens::Fisheye(_) => "fisheye",
                Lens::ThinPrismFisheye(_) => "thin prism fisheye",
                Lens::RadTanThinPrismFisheye(_) => "rad tan thin prism fisheye",
                _ => "other",
            };
            cameras.update(model.as_bytes());
            for coefficient in camera.lens.coefficients() {
                cameras.update(&coefficient.to_le_bytes());
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
            "other camera poses, focal lengths or lenses".to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_scene::{Camera, Photo, Pose, View};

    fn of(lens: Lens) -> CaptureIdentity {
        let view = View {
            name: "a.png".to_owned(),
            camera: Camera {
                lens,
                ..Camera::pinhole(4, 3, 5.0, Pose::IDENTITY)
            },
            source_model: String::new(),
            photo: Photo::from_rgb(4, 3, vec![0; 36]).into(),
        };
        CaptureIdentity::of(&Dataset {
            views: vec![view],
            ..Dataset::default()
        })
    }

    #[test]
    fn another_lens_is_another_capture() {
        let lenses = [
            Lens::Pinhole,
            Lens::OpenCv([0.1, 0.2, 0.0, 0.0]),
            Lens::Fisheye([0.1, 0.2, 0.0, 0.0]),
            Lens::Fisheye([0.1, 0.3, 0.0, 0.0]),
        ];
        for a in lenses {
            for b in lenses {
                assert_eq!(of(a).check(&of(b)).is_ok(), a == b, "{a:?} {b:?}");
            }
        }
    }
}
