//! COLMAP reconstructions: `cameras`, `images` and `points3D`, binary or text.
//!
//! Format: <https://colmap.github.io/format.html>. Newer versions add `rigs` and `frames`; poses
//! are still in `images`, so those are not needed here.
//!
//! 1. A *model folder* holds the three files. Binary is preferred; text is used when one of
//!    `cameras.bin` and `images.bin` is absent.
//! 2. Counts in a file are compared with its size before anything is allocated: a record has a
//!    smallest size.
//! 3. Records are checked one by one, errors name the camera, image or point and the byte or line;
//!    the 2D observations of images are skipped over: points name their images.

mod binary;
mod model;
mod text;

pub use binary::{parse_cameras_bin, parse_images_bin, parse_points_bin};
pub use model::{CameraModel, MODELS};
pub use text::{parse_cameras_txt, parse_images_txt, parse_points_txt};

use crate::{Camera, Error, Point, Pose, Result, Tracks, bounded};
use glam::DVec3;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A camera of the model: intrinsics shared by its images.
#[derive(Debug, Clone, PartialEq)]
pub struct ColmapCamera {
    /// The model's own number for it.
    pub id: u32,
    /// Which lens formula.
    pub model: &'static CameraModel,
    /// Pixels.
    pub width: u64,
    /// Pixels.
    pub height: u64,
    /// As many as `model.parameter_count`, in the model's order.
    pub parameters: Vec<f64>,
}

/// A registered image.
#[derive(Debug, Clone, PartialEq)]
pub struct ColmapImage {
    /// The model's own number for it.
    pub id: u32,
    /// Path of the photo relative to the image folder.
    pub name: String,
    /// Id of its camera.
    pub camera_id: u32,
    /// Its pose.
    pub camera_from_world: Pose,
}

/// Sparse points, without those whose position is not finite.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColmapPoints {
    /// In file order.
    pub points: Vec<Point>,
    /// What each position lacks as `f32`, see [`crate::Capture::remainders`].
    pub remainders: Vec<[f32; 3]>,
    /// The images that each was found in, by their ids.
    pub tracks: Tracks,
    /// How many were dropped because their position is NaN or infinite.
    pub dropped: usize,
}

/// A model folder, read and checked.
#[derive(Debug, Clone)]
pub struct Model {
    /// Images with their cameras, in file order: name, camera (with its lens) and lens name.
    pub images: Vec<(String, Camera, &'static str)>,
    /// The images' ids, in the same order.
    pub image_ids: Vec<u32>,
    /// Sparse points; empty if the folder has no `points3D` file.
    pub points: Vec<Point>,
    /// What each position lacks as `f32`, see [`crate::Capture::remainders`].
    pub remainders: Vec<[f32; 3]>,
    /// The images that each was found in, by their ids.
    pub tracks: Tracks,
    /// The `points3D` file, if it is not there or holds no usable point.
    pub missing_points: Option<PathBuf>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// Whether `folder` holds a model, binary or text.
pub fn is_model(folder: &Path) -> bool {
    extension(folder).is_some()
}

fn extension(folder: &Path) -> Option<&'static str> {
    ["bin", "txt"].into_iter().find(|ext| {
        ["cameras", "images"]
            .iter()
            .all(|file| folder.join(file).with_extension(ext).is_file())
    })
}

/// Number of registered images of the model in `folder`.
pub fn image_count(folder: &Path) -> Result<usize> {
    read_images(folder).map(|images| images.len())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bounded::read("cannot read the COLMAP file", path, bounded::MODEL_BYTES)
}

fn file(folder: &Path, name: &str) -> Result<(PathBuf, bool)> {
    let Some(ext) = extension(folder) else {
        return Err(Error::input("no COLMAP model here")
            .at_path(folder)
            .hint("a model folder holds cameras.bin, images.bin and points3D.bin (or .txt)"));
    };
    Ok((folder.join(name).with_extension(ext), ext == "bin"))
}

/// Text files carry no count that binds, but COLMAP writes one into a comment: fewer records than
/// it says may mean that the file was cut.
fn note_announced(folder: &Path, name: &str, found: usize, notes: &mut Vec<String>) -> Result<()> {
    let (path, binary) = file(folder, name)?;
    if binary || !path.is_file() {
        return Ok(());
    }
    if let Some(announced) = text::announced_count(&read(&path)?)
        && announced > found
    {
        notes.push(format!(
            "{name}.txt announces {announced} records but holds {found}: was it cut?"
        ));
    }
    Ok(())
}

fn read_cameras(folder: &Path) -> Result<Vec<ColmapCamera>> {
    let (path, binary) = file(folder, "cameras")?;
    let (bytes, label) = (read(&path)?, path.display().to_string());
    if binary {
        parse_cameras_bin(&bytes, &label)
    } else {
        parse_cameras_txt(&bytes, &label)
    }
}

fn read_images(folder: &Path) -> Result<Vec<ColmapImage>> {
    let (path, binary) = file(folder, "images")?;
    let (bytes, label) = (read(&path)?, path.display().to_string());
    if binary {
        parse_images_bin(&bytes, &label)
    } else {
        parse_images_txt(&bytes, &label)
    }
}

fn read_points(folder: &Path) -> Result<Option<ColmapPoints>> {
    let (path, binary) = file(folder, "points3D")?;
    if !path.is_file() {
        return Ok(None);
    }
    let (bytes, label) = (read(&path)?, path.display().to_string());
    if binary {
        parse_points_bin(&bytes, &label).map(Some)
    } else {
        parse_points_txt(&bytes, &label).map(Some)
    }
}

/// Reads the model in `folder`: every image joined with its camera, every number checked.
pub fn read_model(folder: &Path) -> Result<Model> {
    let mut notes = Vec::new();
    let cameras = read_cameras(folder)?;
    let images = read_images(folder)?;
    if images.is_empty() {
        return Err(Error::input("the model has no registered images")
            .at_path(folder)
            .hint("run COLMAP's mapper again: no photo could be placed"));
    }
    note_announced(folder, "cameras", cameras.len(), &mut notes)?;
    note_announced(folder, "images", images.len(), &mut notes)?;
    let (points, remainders, tracks) = match read_points(folder)? {
        Some(read) => {
            let found = read.points.len() + read.dropped;
            note_announced(folder, "points3D", found, &mut notes)?;
            if read.dropped > 0 {
                notes.push(format!(
                    "{} sparse points with NaN or infinite positions were left out",
                    read.dropped
                ));
            }
            (read.points, read.remainders, read.tracks)
        }
        None => Default::default(),
    };
    let mut missing_points = None;
    if points.is_empty() {
        notes.push("the model has no sparse points".to_owned());
        missing_points = Some(file(folder, "points3D")?.0);
    }
    // Converted once per camera; only those that images use need a lens we know.
    let place = file(folder, "cameras")?.0;
    let used: HashSet<u32> = images.iter().map(|i| i.camera_id).collect();
    let mut by_id = HashMap::new();
    for camera in cameras.iter().filter(|c| used.contains(&c.id)) {
        by_id.insert(camera.id, (camera.to_camera(&place)?, camera.model.name));
    }
    let image_ids = images.iter().map(|image| image.id).collect();
    let images = images
        .into_iter()
        .map(|image| {
            let Some((camera, model)) = by_id.get(&image.camera_id) else {
                return Err(Error::input(format!(
                    "image \"{}\" refers to camera {}, which does not exist",
                    image.name, image.camera_id
                ))
                .at_path(folder)
                .hint("cameras and images must come from the same model"));
            };
            let camera = Camera {
                camera_from_world: image.camera_from_world,
                ..*camera
            };
            Ok((image.name, camera, *model))
        })
        .collect::<Result<_>>()?;
    Ok(Model {
        images,
        image_ids,
        points,
        remainders,
        tracks,
        missing_points,
        notes,
    })
}

/// A pose from the file's numbers, checked. `what` names the image.
fn checked_pose(quat: [f64; 4], translation: [f64; 3], what: &str) -> Result<Pose> {
    let finite = quat.iter().chain(&translation).all(|v| v.is_finite());
    if !finite {
        return Err(
            Error::input(format!("the pose of {what} has a NaN or infinite number"))
                .hint("run COLMAP's mapper again, or delete the image from the model"),
        );
    }
    let norm = quat.iter().map(|q| q * q).sum::<f64>().sqrt();
    if !(1e-12..1e12).contains(&norm) {
        return Err(Error::input(format!(
            "the rotation of {what} is a quaternion of length {norm:e}, which is no rotation"
        ))
        .hint("run COLMAP's mapper again, or delete the image from the model"));
    }
    Ok(Pose::from_wxyz(
        quat.map(|q| q / norm),
        DVec3::from(translation),
    ))
}

/// The images of a file as they are read: poses checked, no id and no name twice.
#[derive(Default)]
struct Images<'a> {
    list: Vec<ColmapImage>,
    ids: HashSet<u32>,
    names: HashSet<&'a str>,
}

impl<'a> Images<'a> {
    fn push(
        &mut self,
        id: u32,
        name: &'a str,
        camera_id: u32,
        (quat, translation): ([f64; 4], [f64; 3]),
    ) -> Result<()> {
        let what = format!("image \"{name}\"");
        unique(&mut self.ids, id, &format!("image id {id}"))?;
        unique(&mut self.names, name, &what)?;
        self.list.push(ColmapImage {
            id,
            name: name.to_owned(),
            camera_id,
            camera_from_world: checked_pose(quat, translation, &what)?,
        });
        Ok(())
    }
}

/// Refuses an id or a name that appears twice.
fn unique<T: std::hash::Hash + Eq>(seen: &mut HashSet<T>, key: T, what: &str) -> Result<()> {
    if seen.insert(key) {
        Ok(())
    } else {
        Err(Error::input(format!("{what} appears twice"))
            .hint("the file is damaged or two models were joined by hand: export it again"))
    }
}
