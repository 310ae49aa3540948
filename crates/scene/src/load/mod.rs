//! Loads a capture from disk: COLMAP, Nerfstudio or Blender.
//!
//! 1. Detect the layout of the path (`layouts`): a COLMAP model (`sparse/0`, `sparse`, the largest of several), a
//!    Nerfstudio `transforms.json`, Blender's `transforms_train.json`, or one of these in a folder below. If there is
//!    no capture, `next_step` names the next step.
//! 2. Find the photos and masks that the capture names (`finder`, `places`, `mask_files`).
//! 3. Sort the images by name, select those of the options, check that every photo exists.
//! 4. Per photo, in parallel (`views`, `photo`): compare its size with the camera's, decode, mask, reduce. A photo with
//!    lens distortion is unchanged and its camera keeps the lens, or both are converted to those of a pinhole:
//!    [`LoadOptions::undistort`]. Photos that exceed a memory limit stay in their files: see [`crate::PhotoSource`].

mod colours;
mod few;
pub(crate) mod finder;
mod geometry;
mod inputs;
mod layouts;
mod mask_files;
mod next_step;
mod open;
mod panorama;
mod photo;
pub(crate) mod places;
mod plausible;
mod readings;
mod sizes;
#[cfg(test)]
mod tests;
mod tools;
mod views;

use crate::masks::{MaskMode, Masked};
use crate::{Dataset, Error, Progress, Result};
pub use inputs::{refuse_capture_file, refuse_output, refuse_output_file};
pub use open::open;
pub(crate) use panorama::{is_panorama, panorama};
use serde::{Deserialize, Serialize};
pub use sizes::photo_sizes;
use std::path::{Path, PathBuf};

pub(crate) use photo::{
    Treatment, check_size, check_undistort, decode_photo, depth_of, depth_sum, reduced_camera,
};
pub use views::{check, decode, describe_all};

/// Options of loading: the selected photos, and their size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Divisor of width and height. If there is a folder `images_2`, `images_4`, ... for this number next to the image
    /// folder, its photos are used unchanged.
    pub downscale: Option<u32>,
    /// Longest edge of a photo, pixels; larger photos are reduced. Applied after `downscale`.
    /// Undistortion, if any, comes after it and may change the size a little.
    pub max_resolution: Option<u32>,
    /// Folder of the photos, instead of the one in the capture. Relative to the working directory, or to the capture if
    /// that does not exist.
    pub images: Option<PathBuf>,
    /// Maximum number of views to load, spread evenly over the names.
    pub max_views: Option<usize>,
    /// Skips missing photos that the capture names, instead of refusing the capture.
    pub skip_missing: bool,
    /// Undistorts photos to those of a pinhole camera. This removes the parts outside the largest rectangle in them. If
    /// false, photos and their cameras' lenses are unchanged.
    pub undistort: bool,
    /// Use of masks and of the photos' own alpha channels.
    pub mask_mode: MaskMode,
    /// True if masks are white where the photo is excluded, not where it is used.
    pub invert_masks: bool,
    /// Memory limit of decoded photos, bytes. If they need more, none is stored in memory: each is read from its file
    /// at each use ([`crate::PhotoSource::File`]). `None` = all are stored.
    pub photo_memory_bytes: Option<u64>,
    /// Holds out views by number although the capture has its own split ([`crate::OwnSplit`]).
    pub ignore_split: bool,
    /// Also loads depth images: [`crate::View::depth`]. The images are those that the capture names, else files of the
    /// photos' names in `depth_folder`, else in `depths` or `depth` next to the image folder, as `.exr` or `.png`.
    pub depths: bool,
    /// Folder of the depth images. Relative paths are resolved like those of `images`.
    pub depth_folder: Option<PathBuf>,
}

/// Loads the capture at `path`: its folder, a COLMAP model folder, or the transforms JSON itself.
///
/// Views are sorted by name; their cameras have the photos' sizes. If a lens distorts, pixels without a ray are masked
/// (see [`crate::shown`]). EXIF orientation and colour profiles are ignored: poses belong to the pixels as they are
/// stored. 16-bit photos are rounded to 8 bits, with a note; CMYK and 12-bit JPEGs are refused, as are formats other
/// than JPEG, PNG, WebP, TIFF and BMP.
///
/// # Errors
/// Nothing recognisable at `path`; damaged files; photos missing, undecodable or of another aspect ratio than their
/// camera; impossible cameras or poses; a mask mode if nothing is masked. The error names the file or the image.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    let (options, capture) = (&with_depth_folder(options, path)?, open(path, options)?);
    let (dataset, done) = views::decode_each(capture, options, progress)?;
    let mode = options.mask_mode;
    let has_effect = |masked: &Masked| masked.ignored || masked.transparent || masked.nothing_left;
    if mode != MaskMode::Auto && !done.iter().any(|t| has_effect(&t.masked)) {
        let what = match done.iter().any(|t| t.masked.idle) {
            true => "no mask excludes a pixel",
            false => "no photo has a mask or transparent pixels",
        };
        return Err(Error::input(format!("the mask mode is {mode}, but {what}"))
            .at_path(path)
            .hint(MASKS_HINT));
    }
    Ok(dataset)
}

const MASKS_HINT: &str = "put masks into masks/ next to the image folder, named as the photos \
                          (photo.png or photo.jpg.png) and white where they are to be used";

fn check_options(options: &LoadOptions) -> Result<()> {
    for (name, zero) in [
        ("downscale", options.downscale == Some(0)),
        ("max_resolution", options.max_resolution == Some(0)),
        ("max_views", options.max_views == Some(0)),
    ] {
        if zero {
            return Err(Error::input(format!("{name} is 0"))
                .hint("give a number of at least 1, or omit the option"));
        }
    }
    Ok(())
}

/// Returns the options with the folder of the depth images resolved.
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
