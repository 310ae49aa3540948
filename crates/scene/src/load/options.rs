//! Options of loading.

use crate::masks::MaskMode;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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

/// Hint of the error of a capture without masks.
pub(super) const MASKS_HINT: &str = "put masks into masks/ next to the image folder, named as the photos \
                          (photo.png or photo.jpg.png) and white where they are to be used";

/// Refuses numbers out of range.
pub(super) fn check_options(options: &LoadOptions) -> Result<()> {
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
