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
mod describe;
mod few;
pub(crate) mod finder;
mod geometry;
mod inputs;
mod layouts;
mod local_origin;
mod mask_files;
mod missing;
mod next_step;
mod open;
mod options;
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
pub use layouts::colmap_model;
pub use open::open;
pub use options::LoadOptions;
use options::MASKS_HINT;
pub use sizes::photo_sizes;
use std::path::Path;

pub(crate) use photo::decode_photo;
pub use views::{check, decode, describe_all};

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
