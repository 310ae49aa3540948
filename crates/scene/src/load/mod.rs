//! Loads a capture from disk: COLMAP, Nerfstudio or Blender.
//!
//! 1. Find out what the path holds (`find`): a COLMAP model (`sparse/0`, `sparse`, the largest
//!    of several), a Nerfstudio `transforms.json`, Blender's `transforms_train.json`, or a model
//!    one level down (`colmap/sparse`, `dense/sparse`).
//! 2. Sort the images by name, choose those asked for, check that every photo is there.
//! 3. Per photo, in parallel (`views`, `photo`): compare its size with the camera's, decode, mask, reduce. A
//!    photo whose lens distorts stays as it is and its camera keeps the lens, or both are turned
//!    into those of a pinhole: [`LoadOptions::undistort`]. Photos that exceed a limit of memory are
//!    left in their files: see [`crate::PhotoSource`].

mod find;
mod inputs;
mod photo;
mod plausible;
mod views;

use crate::capture::{Capture, PosedImage};
use crate::masks::{MaskMode, Masked};
use crate::{Dataset, Error, Progress, Result};
use crate::{blender, nerfstudio};
use find::{Found, detect, open_colmap};
pub use inputs::{refuse_output, refuse_output_file};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(crate) use photo::{Treatment, check_size, decode_photo, depth_of, depth_sum, reduced_camera};
pub use views::{check, decode, describe_all};

/// What to load of a capture, and how large.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Divides width and height by this. A folder `images_2`, `images_4`, ... beside the image
    /// folder is used where there is one for this number, as it is.
    pub downscale: Option<u32>,
    /// Longest edge of a photo, pixels; larger photos are reduced. Applied after `downscale`.
    /// Undistortion, if any, comes after it and may change the size a little.
    pub max_resolution: Option<u32>,
    /// Folder that holds the photos, instead of the one the capture names. Relative to the working
    /// directory, or to the capture if that does not exist.
    pub images: Option<PathBuf>,
    /// Loads at most this many views, spread evenly over the names.
    pub max_views: Option<usize>,
    /// Leaves out photos that the capture names and that are not there, instead of refusing it.
    pub skip_missing: bool,
    /// Turns photos whose lens distorts into those of a pinhole camera, which loses what lies
    /// outside the largest rectangle in them, instead of leaving them and their cameras' lenses as
    /// they are.
    pub undistort: bool,
    /// What masks and the photos' own alpha channels do.
    pub mask_mode: MaskMode,
    /// Masks are white where the photo is to be left out, not where it is to be used.
    pub invert_masks: bool,
    /// Bytes that decoded photos may take. If they take more, none is held: each is read from its file
    /// whenever it is needed ([`crate::PhotoSource::File`]). `None` = all are held.
    pub photo_memory_bytes: Option<u64>,
    /// Also loads depth images: [`crate::View::depth`]. Those that the capture names, else files of the
    /// photos' names in `depth_folder`, else in `depths` or `depth` beside the image folder, as
    /// `.exr` or `.png`.
    pub depths: bool,
    /// Folder that holds the depth images. Relative as `images` is.
    pub depth_folder: Option<PathBuf>,
}

/// Loads the capture at `path`: its folder, a COLMAP model folder, or the transforms JSON itself.
///
/// Views come sorted by name; their cameras have the photos' sizes. Where a lens distorts, pixels
/// that its model cannot explain are masked (see [`crate::shown`]). EXIF orientation and colour profiles are ignored: poses belong to the pixels
/// as they are stored. 16-bit PNGs are rounded to 8 bits, with a note; CMYK and 12-bit JPEGs are
/// refused, as are formats other than JPEG and PNG.
///
/// # Errors
/// Nothing recognisable at `path`; damaged files; photos missing, undecodable or of another aspect
/// ratio than their camera; impossible cameras or poses; a mask mode where nothing is masked. The
/// error names the file or the image.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    let (options, capture) = (&with_depth_folder(options, path)?, open(path, options)?);
    let (dataset, done) = views::decode_each(capture, options, progress)?;
    let mode = options.mask_mode;
    if mode != MaskMode::Auto && done.iter().all(|t| t.masked == Masked::default()) {
        return Err(Error::input(format!(
            "the mask mode is {mode}, but no photo has a mask or transparent pixels"
        ))
        .at_path(path)
        .hint(MASKS_HINT));
    }
    Ok(dataset)
}

const MASKS_HINT: &str = "put masks into masks/ beside the image folder, named as the photos \
                          (photo.png or photo.jpg.png) and white where they are to be used";

/// Finds the capture at `path` and reads everything but the photos.
pub fn open(path: &Path, options: &LoadOptions) -> Result<Capture> {
    check_options(options)?;
    let mut capture = match detect(path)? {
        Found::Colmap { model, base, notes } => open_colmap(&model, &base, options, notes)?,
        Found::Transforms(json) => nerfstudio::open(&json, options.skip_missing)?,
        Found::Blender(root) => blender::open(&root, options.skip_missing)?,
    };
    capture.choose_origin();
    if let Some(folder) = &options.images {
        let folder = image_folder_override(folder, path)?;
        for image in &mut capture.images {
            image.folder.clone_from(&folder);
        }
    }
    if let Some(n) = options.downscale.filter(|&n| n > 1) {
        use_downscaled_folders(&mut capture, n);
    }
    if options.skip_missing {
        capture.skip_missing().map_err(|e| e.at_path(path))?;
    }
    capture.select(options).map_err(|e| e.at_path(path))?;
    check_masks(&mut capture, options).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(path),
    })?;
    let notes = plausible::notes(&capture);
    capture.notes.extend(notes);
    Ok(capture)
}

/// Refuses to invert masks that are not there, and tells of a folder of masks that fit no photo.
fn check_masks(capture: &mut Capture, options: &LoadOptions) -> Result<()> {
    for image in &capture.images {
        if image.mask_path()?.is_some() {
            return Ok(());
        }
    }
    if options.invert_masks {
        return Err(
            Error::input("masks are to be inverted, but no photo has one").hint(MASKS_HINT),
        );
    }
    let masks = capture.images.first().and_then(PosedImage::mask_folder);
    if let Some(masks) = masks.filter(|folder| folder.is_dir()) {
        capture.notes.push(format!(
            "no mask in {} is named as a photo (photo.png or photo.jpg.png): none is used",
            masks.display()
        ));
    }
    Ok(())
}

fn check_options(options: &LoadOptions) -> Result<()> {
    for (name, zero) in [
        ("downscale", options.downscale == Some(0)),
        ("max_resolution", options.max_resolution == Some(0)),
        ("max_views", options.max_views == Some(0)),
    ] {
        if zero {
            return Err(Error::input(format!("{name} is 0"))
                .hint("give a number of at least 1, or leave the option out"));
        }
    }
    Ok(())
}

/// The options with the folder of the depth images found.
fn with_depth_folder(options: &LoadOptions, capture: &Path) -> Result<LoadOptions> {
    let mut options = options.clone();
    if let Some(folder) = &options.depth_folder {
        let places = [folder.clone(), capture.join(folder)];
        let found = places.into_iter().find(|folder| folder.is_dir());
        options.depth_folder = Some(found.ok_or_else(|| {
            Error::input("the folder of the depth images does not exist")
                .at_path(folder)
                .hint("name an existing folder, relative to here or to the capture")
        })?);
    }
    Ok(options)
}

fn image_folder_override(folder: &Path, capture: &Path) -> Result<PathBuf> {
    [folder.to_owned(), capture.join(folder)]
        .into_iter()
        .find(|folder| folder.is_dir())
        .ok_or_else(|| {
            Error::input("the image folder does not exist")
                .at_path(folder)
                .hint("name an existing folder, relative to here or to the capture")
        })
}

/// Points images to `<folder>_<n>` where that exists.
fn use_downscaled_folders(capture: &mut Capture, n: u32) {
    let mut used: Vec<PathBuf> = Vec::new();
    for image in &mut capture.images {
        let mut name = image.folder.clone().into_os_string();
        name.push(format!("_{n}"));
        let folder = PathBuf::from(name);
        if used.last() == Some(&folder) || folder.is_dir() {
            image.folder.clone_from(&folder);
            image.downscaled = true;
            used.push(folder);
            used.dedup();
        }
    }
    for folder in used {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        capture.notes.push(format!("photos are taken from {name}"));
    }
}
