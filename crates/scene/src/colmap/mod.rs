//! COLMAP reconstructions: `cameras`, `images` and `points3D`, binary or text.
//!
//! Format: <https://colmap.github.io/format.html>. Newer versions add `rigs` and `frames`. The poses are still in
//! `images`, so this module does not read the new files.
//!
//! 1. A *model folder* holds the three files (`files`). Binary is preferred. Text is used if one of `cameras.bin` and
//!    `images.bin` is absent, and a mix of both if neither kind is complete. Points may be a PLY file. The content of a
//!    file decides between binary and text, not its name.
//! 2. Counts in a file are compared with its size before anything is allocated, by the smallest size of a record.
//! 3. Records are checked one by one. Errors name the camera, image or point and the byte or line. The 2D observations
//!    of images are skipped, because points name their images.

mod binary;
pub(crate) mod files;
mod model;
mod records;
mod text;

pub use crate::tracks::Observation;
pub use binary::{parse_cameras_bin, parse_images_bin, parse_points_bin};
pub use model::{CameraModel, ColmapCamera, MODELS};
pub use records::{ColmapImage, ColmapPoints};
pub use text::{parse_cameras_txt, parse_images_txt, parse_points_txt};

use crate::{Camera, Error, Point, Result, Tracks, bounded, ply};
use files::{Kind, ModelFiles};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Note of a model without points.
pub(crate) const NO_POINTS: &str = "the model has no sparse points";

/// Maximum of stored observations per image, and of observations read per point.
const OBSERVATIONS_KEPT: usize = 16;
const OBSERVATIONS_SEEN: usize = 96;

/// Content of a model folder, checked.
#[derive(Debug, Clone)]
pub struct Model {
    /// Images with their cameras, in file order: name, camera (with its lens) and lens name.
    pub images: Vec<(String, Camera, &'static str)>,
    /// Ids of the images, in the order of `images`.
    pub image_ids: Vec<u32>,
    /// Bytes of the names that are not UTF-8, in the order of `images`.
    pub name_bytes: Vec<Option<Vec<u8>>>,
    /// Sparse points; empty if the folder has no `points3D` file.
    pub points: Vec<Point>,
    /// Rounding remainder of each position, see [`crate::Capture::remainders`].
    pub remainders: Vec<[f32; 3]>,
    /// Images that observe each point, by their ids; empty if the points are a PLY file.
    pub tracks: Tracks,
    /// Some of the images' observations of sparse points.
    pub observations: Vec<Observation>,
    /// Path of the `points3D` file if it is missing or holds no usable point.
    pub missing_points: Option<PathBuf>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Returns true if `folder` holds a model, binary or text.
pub fn is_model(folder: &Path) -> bool {
    ModelFiles::in_folder(folder).is_some()
}

/// Returns the number of registered images of the model in `folder`.
pub fn image_count(folder: &Path) -> Result<usize> {
    read_images(&whole(folder)?, &mut Vec::new()).map(|(images, _)| images.len())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bounded::read("cannot read the COLMAP file", path, bounded::MODEL_BYTES)
}

fn whole(folder: &Path) -> Result<ModelFiles> {
    ModelFiles::in_folder(folder).ok_or_else(|| {
        Error::input("no COLMAP model here")
            .at_path(folder)
            .hint("a model folder holds cameras.bin, images.bin and points3D.bin (or .txt)")
    })
}

/// A file of a model with its format, text or binary, by its content.
struct ModelFile {
    bytes: Vec<u8>,
    label: String,
    is_binary: bool,
    /// True if the file's name belongs to the other format.
    is_misnamed: bool,
}

impl ModelFile {
    fn read((path, kind): &(PathBuf, Kind)) -> Result<Self> {
        let named_binary = *kind == Kind::Binary;
        let bytes = read(path)?;
        // An empty file has no format.
        let is_binary = match bytes.is_empty() {
            true => named_binary,
            false => !text::is_text(&bytes, named_binary),
        };
        Ok(Self {
            label: path.display().to_string(),
            is_binary,
            is_misnamed: is_binary != named_binary,
            bytes,
        })
    }

    /// Returns notes on the file, from which `found` records were read. Text files have no binding count, but COLMAP
    /// writes one into a comment. Fewer records than this count may mean that the file was truncated.
    fn notes(&self, name: &str, found: usize) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_misnamed {
            let holds = if self.is_binary {
                "binary records"
            } else {
                "text"
            };
            notes.push(format!("{} holds {holds}: it is read as that", self.label));
        }
        if !self.is_binary
            && let Some(announced) = text::announced_count(&self.bytes)
            && announced > found
        {
            notes.push(format!(
                "{name}.txt announces {announced} records but holds {found}: was it cut?"
            ));
        }
        notes
    }
}

fn read_cameras(files: &ModelFiles, notes: &mut Vec<String>) -> Result<Vec<ColmapCamera>> {
    let file = ModelFile::read(&files.cameras)?;
    let cameras = match file.is_binary {
        true => parse_cameras_bin(&file.bytes, &file.label),
        false => parse_cameras_txt(&file.bytes, &file.label),
    }?;
    notes.extend(file.notes("cameras", cameras.len()));
    Ok(cameras)
}

/// One observation of a point in an image: the image's index, the pixel, the point's id.
type Sighting = (usize, [f64; 2], u64);

/// Reads the images, and some observations of each.
fn read_images(
    files: &ModelFiles,
    notes: &mut Vec<String>,
) -> Result<(Vec<ColmapImage>, Vec<Sighting>)> {
    let file = ModelFile::read(&files.images)?;
    let mut seen: Vec<Sighting> = Vec::new();
    let mut keep = |image: usize, all: Vec<([f64; 2], u64)>| {
        let with_point = all.into_iter().filter(|(_, point)| *point != u64::MAX);
        let kept = with_point.take(OBSERVATIONS_KEPT);
        seen.extend(kept.map(|(pixel, point)| (image, pixel, point)));
    };
    let images = match file.is_binary {
        true => binary::read_images_bin(&file.bytes, &file.label, &mut |image, bytes| {
            keep(image, binary::observations(bytes, OBSERVATIONS_SEEN));
        }),
        false => text::read_images_txt(&file.bytes, &file.label, &mut |image, line| {
            keep(image, text::observations(line, OBSERVATIONS_SEEN));
        }),
    }?;
    notes.extend(file.notes("images", images.len()));
    Ok((images, seen))
}

/// Reads the points, and the indices of those with requested ids.
fn read_points(
    files: &ModelFiles,
    wanted: &mut HashMap<u64, usize>,
    notes: &mut Vec<String>,
) -> Result<Option<ColmapPoints>> {
    let Some(named @ (path, kind)) = &files.points else {
        return Ok(None);
    };
    let label = path.display().to_string();
    if *kind == Kind::Ply {
        let (points, metadata) = ply::read_all_points(path)?;
        notes.extend(
            metadata
                .notes
                .into_iter()
                .map(|note| format!("{label}: {note}")),
        );
        return Ok(Some(ColmapPoints {
            points,
            remainders: metadata.remainders,
            ..ColmapPoints::default()
        }));
    }
    let file = ModelFile::read(named)?;
    let mut found = |id: u64, index: usize| {
        if let Some(place) = wanted.get_mut(&id) {
            *place = index;
        }
    };
    let points = match file.is_binary {
        true => binary::read_points_bin(&file.bytes, &file.label, &mut found),
        false => text::read_points_txt(&file.bytes, &file.label, &mut found),
    }?;
    notes.extend(file.notes("points3D", points.points.len() + points.dropped));
    Ok(Some(points))
}

/// Reads the model in `folder`: every image joined with its camera, every number checked.
pub fn read_model(folder: &Path) -> Result<Model> {
    let files = whole(folder)?;
    let mut notes = files.notes();
    let cameras = read_cameras(&files, &mut notes)?;
    let (images, seen) = read_images(&files, &mut notes)?;
    if images.is_empty() {
        return Err(Error::input("the model has no registered images")
            .at_path(folder)
            .hint("run COLMAP's mapper again: no photo could be placed"));
    }
    // Points that are missing in the file keep an index beyond it.
    let mut index_of: HashMap<u64, usize> = seen.iter().map(|&(.., id)| (id, usize::MAX)).collect();
    let (points, remainders, tracks) = match read_points(&files, &mut index_of, &mut notes)? {
        Some(read) => {
            if read.dropped > 0 {
                notes.push(format!(
                    "{} sparse points with NaN or infinite positions were dropped",
                    read.dropped
                ));
            }
            (read.points, read.remainders, read.tracks)
        }
        None => Default::default(),
    };
    let mut missing_points = None;
    if points.is_empty() {
        notes.push(NO_POINTS.to_owned());
        missing_points = Some(files.points_path(folder));
    }
    // Converted once per camera; only cameras that images use need a supported lens.
    let place = files.cameras.0.clone();
    let used: HashSet<u32> = images.iter().map(|i| i.camera_id).collect();
    let mut by_id = HashMap::new();
    for camera in cameras.iter().filter(|c| used.contains(&c.id)) {
        by_id.insert(camera.id, (camera.to_camera(&place)?, camera.model.name));
    }
    let image_ids: Vec<u32> = images.iter().map(|image| image.id).collect();
    let observed = |&(image, pixel, id): &Sighting| {
        let point = *index_of.get(&id).filter(|&&point| point < points.len())?;
        Some(Observation {
            image: *image_ids.get(image)?,
            point,
            pixel,
        })
    };
    let observations = seen.iter().filter_map(observed).collect();
    let name_bytes = images
        .iter()
        .map(|image| image.name_bytes.clone())
        .collect();
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
        name_bytes,
        points,
        remainders,
        tracks,
        observations,
        missing_points,
        notes,
    })
}
