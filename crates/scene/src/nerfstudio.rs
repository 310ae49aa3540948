//! Nerfstudio (and instant-ngp) captures: one `transforms.json`.
//!
//! Format: <https://docs.nerf.studio/quickstart/data_conventions.html>.
//!
//! 1. Intrinsics are at the top level or in a frame; a frame's own value takes precedence.
//! 2. `transform_matrix` maps camera to world with OpenGL's axes (x right, y up, z backwards). Dapple's cameras look
//!    along +z with y down. Therefore the second and third columns change sign; then the matrix is inverted.
//! 3. Points come from the PLY file that `ply_file_path` names, in the same world.

mod intrinsics;
mod json;

use crate::capture::{Capture, NamedPath, PosedImage, named_path};
use crate::code_pages;
use crate::images;
use crate::load::finder::{Finder, Places};
use crate::load::places::{outside, place_photos};
use crate::own_split::Lists;
use crate::{Camera, Error, LoadOptions, OwnSplit, Pose, Result, bounded, ply, text};
use glam::{DMat3, DQuat, DVec3};
use intrinsics::{Described, Intrinsics};
use json::Matrix;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Note of a file that names no points.
pub(crate) const NO_POINTS: &str = "the capture has no sparse points";

const FORMAT_HINT: &str = "see Nerfstudio's data conventions; `ns-process-data` writes such a file";

#[derive(Debug, Deserialize)]
struct JsonFrame {
    file_path: String,
    transform_matrix: Matrix,
    mask_path: Option<String>,
    depth_file_path: Option<String>,
    #[serde(flatten)]
    own: Intrinsics,
}

#[derive(Debug, Deserialize)]
struct JsonTransforms {
    frames: Vec<JsonFrame>,
    ply_file_path: Option<String>,
    train_filenames: Option<Vec<String>>,
    test_filenames: Option<Vec<String>>,
    val_filenames: Option<Vec<String>>,
    #[serde(flatten)]
    shared: Intrinsics,
}

/// A parsed `transforms.json`, before any other file is read.
#[derive(Debug, Clone)]
pub struct Transforms {
    /// Frames in file order.
    pub frames: Vec<Frame>,
    /// Path of the point cloud relative to the JSON's folder.
    pub ply_file_path: Option<String>,
    /// Paths under `train_filenames`, `test_filenames` and `val_filenames`.
    pub(crate) lists: [Option<Vec<String>>; 3],
}

/// One photo of a [`Transforms`], with its pose.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Path of the photo relative to the JSON's folder. Blender's files omit the extension. For a path that leads out
    /// of that folder (to another machine, or above it), this is the part after the root.
    pub file_path: PathBuf,
    leads_out: bool,
    /// Path of the photo's mask relative to the JSON's folder.
    pub mask_path: Option<PathBuf>,
    /// Path of the photo's depth image relative to the JSON's folder.
    pub depth_file_path: Option<PathBuf>,
    /// Pose of the frame, converted to Dapple's axes.
    pub camera_from_world: Pose,
    intrinsics: Intrinsics,
}

/// Parses a `transforms.json`. Errors name `file`.
pub fn parse_transforms(bytes: &[u8], file: &str) -> Result<Transforms> {
    let bytes = text::to_utf8(bytes);
    let json: JsonTransforms = serde_json::from_slice(&bytes).map_err(|e| {
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        let hint = match e.is_syntax() && (has(b"NaN") || has(b"Infinity")) {
            true => "JSON has no NaN and no Infinity: remove the frames that hold them",
            false => FORMAT_HINT,
        };
        Error::input(format!("the transforms file cannot be read: {e}"))
            .at(file)
            .hint(hint)
    })?;
    let shared = json.shared.completed();
    if json.frames.is_empty() {
        return Err(Error::input("the transforms file has no frames")
            .at(file)
            .hint(FORMAT_HINT));
    }
    let frames = json
        .frames
        .into_iter()
        .map(|frame| {
            let named = |e: Error| e.at(format!("{file}, frame \"{}\"", frame.file_path));
            let NamedPath { path, leads_out } = named_path(&frame.file_path).map_err(named)?;
            let inner = |path: &Option<String>| {
                let path = path.as_deref().map(named_path).transpose();
                path.map(|path| path.map(|named| named.path)).map_err(named)
            };
            Ok(Frame {
                file_path: path,
                leads_out,
                mask_path: inner(&frame.mask_path)?,
                depth_file_path: inner(&frame.depth_file_path)?,
                camera_from_world: pose(&frame.transform_matrix.0).map_err(named)?,
                intrinsics: frame.own.completed().or(&shared),
            })
        })
        .collect::<Result<_>>()?;
    Ok(Transforms {
        frames,
        ply_file_path: json.ply_file_path,
        lists: [
            json.train_filenames,
            json.test_filenames,
            json.val_filenames,
        ],
    })
}

impl Frame {
    /// Returns the frame's camera, if the file is complete without the photo.
    pub(crate) fn camera(&self) -> Result<Camera> {
        let no_size = || {
            Err(Error::input("the frame has no size").hint("give w and h, at the top or per frame"))
        };
        let described = self.intrinsics.camera(self.camera_from_world, no_size)?;
        Ok(described.camera)
    }
}

/// Inverts a camera-to-world matrix with OpenGL's axes.
fn pose(rows: &[Vec<f64>]) -> Result<Pose> {
    let shape = (3..=4).contains(&rows.len()) && rows.iter().all(|row| row.len() == 4);
    if !shape {
        return Err(Error::input("transform_matrix is not 4x4 or 3x4").hint(FORMAT_HINT));
    }
    if !rows.iter().flatten().all(|v| v.is_finite()) {
        return Err(
            Error::input("transform_matrix has a NaN or infinite number").hint(FORMAT_HINT),
        );
    }
    // Row vectors' matrices are transposed: their last column is 0, 0, 0, 1 and their last row the translation.
    let transposed: Vec<Vec<f64>>;
    let ends = rows
        .get(3)
        .map(|last| (last.as_slice(), [0, 1, 2].map(|i| rows[i][3])));
    let rows = match ends {
        Some((&[x, y, z, 1.0], [0.0, 0.0, 0.0])) if [x, y, z] != [0.0; 3] => {
            let turned = (0..4).map(|c| rows.iter().map(|row| row[c]).collect());
            transposed = turned.collect();
            &transposed
        }
        _ => rows,
    };
    let column = |c: usize| DVec3::new(rows[0][c], rows[1][c], rows[2][c]);
    let axes = [column(0), -column(1), -column(2)];
    // Writers that scaled the world write the scale into the matrix; a shear is a defect. Numbers too large to square
    // give zero axes, and a determinant of zero.
    let lengths = axes.map(DVec3::length);
    let [a, b, c] = axes.map(DVec3::normalize_or_zero);
    let skew = a.dot(b).abs().max(b.dot(c).abs()).max(c.dot(a).abs());
    let uneven = lengths.iter().any(|l| (l / lengths[0] - 1.0).abs() > 1e-2);
    if lengths[0] < 1e-12 || uneven || skew > 1e-2 || a.cross(b).dot(c) < 0.9 {
        return Err(
            Error::input("transform_matrix is not a rotation and a translation").hint(
                "its first three columns must be perpendicular, right-handed and of one length",
            ),
        );
    }
    let rotation = DQuat::from_mat3(&DMat3::from_cols(a, b, c))
        .conjugate()
        .normalize();
    let camera_from_world = Pose {
        rotation,
        translation: -(rotation * column(3)),
    };
    if !camera_from_world.is_finite() {
        return Err(Error::input("transform_matrix has a number too large").hint(FORMAT_HINT));
    }
    Ok(camera_from_world)
}

/// Counts the photos that the file names, and the missing ones among them.
///
/// # Errors
/// A file that is not a transforms file.
pub(crate) fn missing(json: &Path) -> Result<(usize, usize)> {
    let bytes = bounded::read("cannot read it", json, bounded::CAMERAS_BYTES)?;
    let transforms = parse_transforms(&bytes, "")?;
    let root = json.parent().unwrap_or(Path::new(""));
    let mut images = posed_images(&transforms, root);
    place_photos(&mut Finder::default(), root, None, &mut images)?;
    let missing = images.iter().filter(|image| image.existing().is_none());
    Ok((images.len(), missing.count()))
}

/// Returns the longest folder that all paths have in common.
fn common_folder(frames: &[Frame]) -> PathBuf {
    let parent = |frame: &Frame| frame.file_path.parent().unwrap_or(Path::new("")).to_owned();
    let mut common = frames.first().map(parent).unwrap_or_default();
    for frame in frames {
        while !frame.file_path.starts_with(&common) {
            common.pop();
        }
    }
    common
}

/// Returns the images of a transforms file in `root`, in its order, with poses but no intrinsics yet.
fn posed_images(transforms: &Transforms, root: &Path) -> Vec<PosedImage> {
    // `images/0.png`, `images/1.png`, ...: the common first folder is the image folder, so that
    // names and `images_2` work as for COLMAP.
    let head = |frame: &Frame| {
        let mut parts = frame.file_path.components();
        let head = parts.next()?;
        parts.next().is_some().then(|| head.as_os_str().to_owned())
    };
    let folder = transforms.frames.first().and_then(head).filter(|first| {
        let mut frames = transforms.frames.iter();
        frames.all(|f| head(f).as_ref() == Some(first))
    });
    // Folders of another machine are not used, and are not part of a photo's name.
    let folder = match transforms.frames.iter().all(|frame| frame.leads_out) {
        true => Some(common_folder(&transforms.frames).into_os_string()),
        false => folder,
    };
    let image = |(frame, id): (&Frame, u32)| {
        let file = match &folder {
            Some(folder) => frame.file_path.strip_prefix(folder),
            None => Ok(frame.file_path.as_path()),
        };
        let file = file.unwrap_or(&frame.file_path).to_owned();
        let in_root = |path: &PathBuf| root.join(path);
        PosedImage {
            name: file.to_string_lossy().replace('\\', "/"),
            folder: folder.as_ref().map_or(root.to_owned(), |f| root.join(f)),
            file,
            downscaled: false,
            mask: frame.mask_path.as_ref().map(in_root),
            id,
            depth: frame.depth_file_path.as_ref().map(in_root),
            camera: Camera::pinhole(1, 1, 1.0, frame.camera_from_world),
            source_model: String::new(),
        }
    };
    transforms.frames.iter().zip(0..).map(image).collect()
}

/// Parses a transforms file in UTF-8, or in the code page under which most photos exist, with a note.
fn parse_any(bytes: &[u8], label: &str, root: &Path) -> Result<(Transforms, Option<String>)> {
    let photos = |transforms: &Transforms| {
        let images = posed_images(transforms, root);
        let there = images.iter().filter(|image| image.existing().is_some());
        there.count()
    };
    let utf8 = text::to_utf8(bytes);
    if std::str::from_utf8(&utf8).is_ok() {
        return Ok((parse_transforms(&utf8, label)?, None));
    }
    let mut best: Option<(usize, Transforms, &str)> = None;
    for (page, decoded) in code_pages::decoded(bytes) {
        let transforms = parse_transforms(decoded.as_bytes(), label)?;
        let count = photos(&transforms);
        if best.as_ref().is_none_or(|&(most, ..)| count > most) {
            best = Some((count, transforms, page));
        }
    }
    let best = best.map(|(count, transforms, page)| {
        let note =
            format!("{label} is not UTF-8: it is read as {page}, which finds {count} photos");
        (transforms, Some(note))
    });
    match best {
        Some(read) => Ok(read),
        None => Ok((parse_transforms(bytes, label)?, None)),
    }
}

/// Reads one JSON file into a capture whose photos are found, in `chosen` or in the file's folder. A frame without size
/// needs its photo: if the photo is missing, that is an error, or `skip_missing` skips the frame.
pub(crate) fn open(json: &Path, options: &LoadOptions, chosen: Option<&Path>) -> Result<Capture> {
    let skip_missing = options.skip_missing;
    let root = json.parent().unwrap_or(Path::new(""));
    let label = json.display().to_string();
    let bytes = bounded::read(
        "cannot read the transforms file",
        json,
        bounded::CAMERAS_BYTES,
    )?;
    let (transforms, page) = parse_any(&bytes, &label, root)?;
    let mut finder = Finder::default();
    let mut images = posed_images(&transforms, root);
    let at_file = |e: Error| match e.place() {
        Some(_) => e,
        None => e.at(label.clone()),
    };
    let notes = place_photos(&mut finder, root, chosen, &mut images).map_err(at_file)?;
    place_named(&mut finder, root, &mut images)?;
    let lost = images.iter().zip(&transforms.frames);
    let mut lost = lost.filter(|(image, frame)| frame.leads_out && image.existing().is_none());
    if let Some((image, _)) = lost.next().filter(|_| !skip_missing) {
        let e = outside(&image.name);
        return Err(e.at(format!("{label}, frame \"{}\"", image.name)));
    }
    let described = describe(images, &transforms.frames, &label, skip_missing)?;
    let lists = Lists::of_transforms(&transforms.lists);
    let lists = lists.map_or_else(|| Lists::in_folders(&[root]), |lists| Ok(Some(lists)))?;
    let own = lists.map(|lists| OwnSplit::from_lists(&lists, &described.images));
    let (own_split, remarks) = own.unwrap_or_default();
    let notes = page.into_iter().chain(notes).chain(remarks);
    let mut capture = Capture {
        images: described.images,
        skipped: described.skipped,
        own_split,
        notes: notes.chain(described.notes).collect(),
        ..Capture::default()
    };
    match &transforms.ply_file_path {
        Some(ply) => {
            let path = points_file(&mut finder, root, ply).map_err(at_file)?;
            let (points, metadata) = ply::read_all_points(&path)?;
            (capture.points, capture.remainders) = (points, metadata.remainders);
            let named = |note: String| format!("{}: {note}", path.display());
            capture.notes.extend(metadata.notes.into_iter().map(named));
        }
        None => capture.notes.push(NO_POINTS.to_owned()),
    }
    Ok(capture)
}

/// Images with the intrinsics of their frames.
struct DescribedImages {
    images: Vec<PosedImage>,
    /// Number of images without a size that were skipped because their photos are missing.
    skipped: usize,
    /// Notes on intrinsics that were read with changes.
    notes: Vec<String>,
}

/// Sets the cameras of the images to those of their frames. Errors name the file `label` and the frame.
fn describe(
    images: Vec<PosedImage>,
    frames: &[Frame],
    label: &str,
    skip_missing: bool,
) -> Result<DescribedImages> {
    let (mut in_degrees, mut bent) = (Vec::new(), 0);
    let mut posed = Vec::new();
    let mut skipped = 0;
    for (mut image, frame) in images.into_iter().zip(frames) {
        if skip_missing && !frame.intrinsics.has_size() && image.existing().is_none() {
            skipped += 1;
            continue;
        }
        let actual = || images::dimensions(&image.path()?);
        let described = frame
            .intrinsics
            .camera(frame.camera_from_world, actual)
            .map_err(|e| match e.place() {
                Some(_) => e,
                None => e.at(format!("{label}, frame \"{}\"", image.name)),
            })?;
        let Described { camera, model, .. } = described;
        if described.in_degrees {
            in_degrees.extend(frame.intrinsics.camera_angle_x);
        }
        bent += usize::from(described.bent_pinhole);
        (image.camera, image.source_model) = (camera, model);
        posed.push(image);
    }
    let mut notes = Vec::new();
    if let Some(angle) = in_degrees.first() {
        notes.push(format!(
            "camera_angle_x is {angle}, more than radians can be: it is read as degrees"
        ));
    }
    if bent > 0 {
        notes.push(format!(
            "camera_model is PINHOLE, and {bent} frames have distortion coefficients (k1, k2, ...) that are not \
             zero: they are used, as OPENCV's; remove them if the photos are undistorted"
        ));
    }
    Ok(DescribedImages {
        images: posed,
        skipped,
        notes,
    })
}

/// Finds the masks and depth images that frames name.
fn place_named(finder: &mut Finder, root: &Path, images: &mut [PosedImage]) -> Result<()> {
    let places = Places {
        first: root.to_owned(),
        others: Vec::new(),
        below: None,
    };
    let fields: [fn(&mut PosedImage) -> &mut Option<PathBuf>; 2] =
        [|image| &mut image.mask, |image| &mut image.depth];
    for field in fields {
        let mut named: Vec<&mut PathBuf> = images
            .iter_mut()
            .filter_map(|i| field(i).as_mut())
            .collect();
        let relative = |path: &&mut PathBuf| path.strip_prefix(root).map(Path::to_owned);
        let files: Vec<PathBuf> = named
            .iter()
            .filter_map(|path| relative(path).ok())
            .collect();
        let found = finder.locate(&places, &files)?;
        for (path, found) in named.iter_mut().zip(found) {
            if let Some(found) = found {
                **path = found.path;
            }
        }
    }
    Ok(())
}

/// Returns the file of points that `ply_file_path` names, or that path if it does not exist.
fn points_file(finder: &mut Finder, root: &Path, named: &str) -> Result<PathBuf> {
    let NamedPath { path, leads_out } = named_path(named)?;
    let places = Places {
        first: root.to_owned(),
        others: Vec::new(),
        below: Some(root.to_owned()),
    };
    let found = finder.locate(&places, std::slice::from_ref(&path))?;
    match found.into_iter().next().flatten() {
        Some(found) => Ok(found.path),
        None if leads_out => Err(outside(named)),
        None => {
            let there = finder.list(root).files.iter();
            let mut there = there.map(|file| file.to_string_lossy().into_owned());
            let other = there.find(|file| file.to_ascii_lowercase().ends_with(".ply"));
            let path = root.join(path);
            match other {
                None => Ok(path),
                Some(other) => Err(Error::input(format!(
                    "the file of points \"{named}\" is missing: {other} is there"
                ))
                .at_path(&path)
                .hint("correct ply_file_path in the transforms file, or remove it")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
