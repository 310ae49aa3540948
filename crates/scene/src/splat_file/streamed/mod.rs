//! Streamed SOG, PlayCanvas' scenes in levels of detail: a `lod-meta.json` and folders of SOG's textures, of which a
//! viewer loads what it is near to, coarse first.
//!
//! 1. Levels of detail (`write`): level 0 is all Gaussians; each other is what decimation leaves of the one before it.
//! 2. A tree (`tree`) halves space by the centres of all levels, until a leaf has few enough Gaussians and is small
//!    enough.
//! 3. Leaves lay their Gaussians of each level into files, along a Morton curve, as a run. A file is a SOG folder
//!    `LEVEL_NUMBER/meta.json` and holds one level of some leaves; runs tile it.
//! 4. `lod-meta.json` (`meta`) names files and has the tree: each node's bounds, each leaf's runs.
//!
//! What is read is the finest level, and the environment where there is one (`read`); files may be `.sog` bundles too.

mod meta;
mod read;
mod tree;
mod write;

use super::sog;
use std::path::Path;

pub(super) use read::{parse_beside, parse_meta_alone, read_folder, size_bytes};
pub(super) use write::encode_files;

/// The file that says what the others are.
pub(super) const META: &str = "lod-meta.json";

/// Returns true if a folder's entry is `lod-meta.json`, or a folder `LEVEL_NUMBER` that holds textures alone.
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
