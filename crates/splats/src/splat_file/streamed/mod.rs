//! Streamed SOG, PlayCanvas' scenes in levels of detail: a `lod-meta.json` and folders of SOG's textures. A viewer
//! loads the parts close to the camera, coarse levels first.
//!
//! 1. Levels of detail (`write`): level 0 is all Gaussians; each further level is a decimation of the one before it.
//! 2. A tree (`tree`) halves space by the centres of all levels, until a leaf has few enough Gaussians and is small
//!    enough.
//! 3. The Gaussians of a leaf and a level are one run in a file, along a Morton curve. A file is a SOG folder
//!    `LEVEL_NUMBER/meta.json` and holds one level of some leaves; runs tile it.
//! 4. `lod-meta.json` (`meta`) names files and has the tree: each node's bounds, each leaf's runs.
//!
//! The reader (`read`) reads the finest level, and the environment if there is one; files may be `.sog` bundles too.

mod meta;
mod read;
mod tree;
mod write;

use super::sog;
use std::path::Path;

pub use read::{DetailLevel, detail_levels, read_detail_level};
pub(super) use read::{parse_beside, parse_meta_alone, read_folder, size_bytes};
pub(super) use write::encode_files;

/// File that names the others.
pub(super) const META: &str = "lod-meta.json";

/// Returns true if a folder's entry is `lod-meta.json`, or a folder `LEVEL_NUMBER` that holds only textures.
pub(super) fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers = name.split_once('_');
    let is_level = numbers.is_some_and(|(level, number)| is_number(level) && is_number(number));
    name == META
        || is_level
            && std::fs::read_dir(path).is_ok_and(|mut entries| {
                entries.all(|entry| entry.is_ok_and(|entry| sog::is_part(&entry.path())))
            })
}
