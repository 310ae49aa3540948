//! Loads a capture from disk: COLMAP, Nerfstudio or Blender.

use crate::{Dataset, Error, Progress, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What to load of a capture, and how large.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Divides width and height by this. `images_2`, `images_4`, ... are used where they exist.
    pub downscale: Option<u32>,
    /// Longest edge of a photo, pixels; larger photos are reduced. Applied after `downscale`.
    pub max_resolution: Option<u32>,
    /// Folder that holds the photos, instead of the one the capture names.
    pub images: Option<PathBuf>,
    /// Loads at most this many views, spread evenly over the names.
    pub max_views: Option<usize>,
}

/// Loads the capture at `path`: its folder, or the transforms JSON itself.
pub fn load(path: &Path, options: &LoadOptions, progress: &dyn Progress) -> Result<Dataset> {
    let _ = (options, progress);
    Err(Error::unsupported("loading captures is not built yet").at_path(path))
}
