//! The capture that photos are added to.
//!
//! A COLMAP model is read with all its numbers. Of other captures, and of models that only the loader of training reads
//! (points in a PLY file), cameras, poses and points are those of the loader; these have no observations.

use super::text;
use crate::model::{Image, Model, Point};
use dapple_base::{Error, Result};
use dapple_scene::colmap::{ColmapCamera, MODELS};
use dapple_scene::{Camera, Capture, Lens, LoadOptions, Pose, PosedImage, load};
use glam::DVec3;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Largest difference of a rotation or a relative translation between the model and the loader: rounding.
const SAME: f64 = 1e-9;

/// Capture that photos are added to.
#[derive(Debug, Clone)]
pub struct Base {
    /// Path of the capture.
    pub path: PathBuf,
    /// Model; its photos have their names in the new capture.
    pub model: Model,
    /// File and mask of each photo, in the order of the model.
    pub files: Vec<(PathBuf, Option<PathBuf>)>,
    /// Folders with files of the capture.
    pub folders: Vec<PathBuf>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Base {
    /// Opens the capture at `path`, with the photos of `images` instead of its own if given.
    ///
    /// # Errors
    /// The errors of [`load::open`]; missing photos; cameras that COLMAP cannot express.
    pub fn open(path: &Path, images: Option<PathBuf>) -> Result<Self> {
        let options = LoadOptions {
            images,
            ..LoadOptions::default()
        };
        let capture = load::open(path, &options)?;
        let mut files = Vec::new();
        for image in &capture.images {
            let file = image.folder.join(&image.file);
            if !file.is_file() {
                return Err(Error::input(format!("the photo \"{}\" is missing", image.name))
                    .at_path(file)
                    .hint("restore the photos of the capture: the new capture holds copies of them"));
            }
            if !image.camera.lens.is_perspective() {
                return Err(Error::unsupported(
                    "photos cannot be added to panoramas: COLMAP's tools have no camera for all sides",
                )
                .at_path(file)
                .hint("add photos to a capture of photos with a lens"));
            }
            files.push((file, image.mask.clone()));
        }
        let folder = load::colmap_model(path)?;
        let exact = folder.as_deref().and_then(text::read);
        let model = exact.and_then(|model| matching(model, &capture));
        let mut model = model.unwrap_or_else(|| from_capture(&capture));
        for (image, name) in model.images.iter_mut().zip(names(&capture.images)) {
            image.name = name;
        }
        let mut notes = Vec::new();
        if capture.images.iter().any(|image| image.depth.is_some()) {
            notes.push("depth images are not copied into the new capture".to_owned());
        }
        let mut folders: Vec<PathBuf> = capture.images.iter().map(|i| i.folder.clone()).collect();
        folders.sort();
        folders.dedup();
        folders.extend(folder);
        folders.push(path.to_owned());
        Ok(Self {
            path: path.to_owned(),
            model,
            files,
            folders,
            notes,
        })
    }
}

/// Returns the model with its photos in the order of the capture; `None` if the loader reads other poses.
fn matching(mut model: Model, capture: &Capture) -> Option<Model> {
    let mut by_id: HashMap<u32, Image> = model.images.drain(..).map(|i| (i.id, i)).collect();
    if by_id.len() != capture.images.len() {
        return None;
    }
    for posed in &capture.images {
        let image = by_id.remove(&posed.id)?;
        let pose = posed.camera.about(-capture.origin).camera_from_world;
        let turn = image.pose.rotation.normalize().dot(pose.rotation).abs();
        let apart = image.pose.translation.distance(pose.translation);
        if 1.0 - turn > SAME || apart > SAME * (1.0 + pose.translation.length()) {
            return None;
        }
        model.images.push(image);
    }
    Some(model)
}

/// Returns the names of the photos in the new capture: their paths below the folder of photos.
fn names(images: &[PosedImage]) -> Vec<String> {
    let path = |image: &PosedImage| {
        let parts: Vec<_> = image
            .file
            .iter()
            .map(|part| part.to_string_lossy())
            .collect();
        parts.join("/")
    };
    let mut names: Vec<String> = images.iter().map(path).collect();
    if names.iter().all(|name| name.starts_with("images/")) {
        for name in &mut names {
            name.drain(.."images/".len());
        }
    }
    let mut taken = HashSet::new();
    let unique = |name: String| super::names::free(&mut taken, &name, |name| name.to_lowercase());
    names.into_iter().map(unique).collect()
}

/// Builds a model of the loader's cameras and points.
fn from_capture(capture: &Capture) -> Model {
    let mut model = Model::default();
    for (index, posed) in capture.images.iter().enumerate() {
        let camera = posed.camera.about(-capture.origin);
        let (name, parameters) = parameters(&camera);
        let (width, height) = (u64::from(camera.width), u64::from(camera.height));
        let is_same = |known: &&ColmapCamera| {
            known.model.name == name
                && (known.width, known.height) == (width, height)
                && known.parameters == parameters
        };
        let known = model.cameras.iter().find(is_same).map(|camera| camera.id);
        let id = known.unwrap_or(model.cameras.len() as u32 + 1);
        if let (None, Some(kind)) = (known, MODELS.iter().find(|kind| kind.name == name)) {
            model.cameras.push(ColmapCamera {
                id,
                model: kind,
                width,
                height,
                parameters,
            });
        }
        let Pose {
            rotation,
            translation,
        } = camera.camera_from_world;
        model.images.push(Image {
            id: index as u32 + 1,
            name: posed.name.clone(),
            camera: id,
            pose: Pose {
                rotation,
                translation,
            },
            observations: Vec::new(),
        });
    }
    let points = capture.points.iter().enumerate();
    model.points = points
        .map(|(index, point)| Point {
            id: index as u64 + 1,
            position: DVec3::from(point.position.map(f64::from)) + capture.origin,
            rgb: point.rgb,
            // COLMAP's value of a point without observations.
            error: -1.0,
            track: Vec::new(),
        })
        .collect();
    model
}

/// Returns COLMAP's name of the camera model and its parameters.
fn parameters(camera: &Camera) -> (&'static str, Vec<f64>) {
    let Camera { fx, fy, cx, cy, .. } = *camera;
    match camera.lens {
        Lens::Radial([k1, k2]) if fx == fy => ("RADIAL", vec![fx, cx, cy, k1, k2]),
        Lens::Radial([k1, k2]) => ("OPENCV", vec![fx, fy, cx, cy, k1, k2, 0.0, 0.0]),
        lens => {
            let intrinsics = [fx, fy, cx, cy].into_iter();
            let coefficients = lens.coefficients().iter().copied();
            (lens.model().0, intrinsics.chain(coefficients).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_lens_has_the_parameters_of_a_model_that_means_the_same() {
        let lenses = [
            Lens::Pinhole,
            Lens::Radial([0.1, -0.02]),
            Lens::OpenCv([0.1, -0.02, 0.003, 0.004]),
            Lens::FullOpenCv([0.1, 0.02, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008]),
            Lens::Fov(0.9),
            Lens::Eucm([0.6, 1.1]),
            Lens::Fisheye([0.1, 0.02, 0.003, 0.004]),
        ];
        for lens in lenses {
            for fy in [90.0, 91.0] {
                let camera = Camera {
                    fy,
                    cx: 51.0,
                    lens,
                    ..Camera::pinhole(100, 80, 90.0, Pose::IDENTITY)
                };
                let (name, parameters) = parameters(&camera);
                let model = MODELS.iter().find(|model| model.name == name).unwrap();
                assert_eq!(model.parameter_count, parameters.len(), "{name}");
                let written = ColmapCamera {
                    id: 1,
                    model,
                    width: 100,
                    height: 80,
                    parameters,
                };
                let read = written.to_camera(Path::new("x")).unwrap();
                let at = |camera: &Camera| {
                    let (x, y) = camera.lens.distort(0.3, -0.2);
                    [camera.fx * x + camera.cx, camera.fy * y + camera.cy]
                };
                assert_eq!(at(&read), at(&camera), "{name}");
            }
        }
    }
}
