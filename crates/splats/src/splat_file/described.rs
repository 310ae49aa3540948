//! Recognises JSON files that name splat files by their content, because captures have files of equal names.

use super::files::META_BYTES;
use super::{Format, sog, streamed};
use dapple_base::bounded;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// Keys that distinguish formats.
#[derive(Deserialize)]
struct Keys {
    means: Option<IgnoredAny>,
    quats: Option<IgnoredAny>,
    #[serde(rename = "lodLevels")]
    lod_levels: Option<IgnoredAny>,
    tree: Option<IgnoredAny>,
    asset: Option<IgnoredAny>,
    meshes: Option<IgnoredAny>,
}

/// Returns the format of a JSON file that names splat files, by its content. `None` for any other file.
pub(super) fn by_content(path: &Path) -> Option<Format> {
    let is_json = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if !is_json || !path.is_file() {
        return None;
    }
    let bytes = bounded::read("cannot read the file", path, META_BYTES).ok()?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let keys: Keys = serde_json::from_slice(bytes).ok()?;
    if keys.means.is_some() && keys.quats.is_some() {
        return Some(Format::SogFolder);
    }
    if keys.lod_levels.is_some() && keys.tree.is_some() {
        return Some(Format::StreamedSog);
    }
    (keys.asset.is_some() && keys.meshes.is_some()).then_some(Format::Gltf)
}

/// Returns true if a JSON file names splat files: a SOG folder's `meta.json` under any name and with missing textures,
/// a `lod-meta.json`, or glTF. A capture's `meta.json` names none.
pub fn describes_splats(path: &Path) -> bool {
    let is_called = |name: &str| path.file_name().is_some_and(|own| own == name);
    let has_texture = || {
        let mut textures = sog::TEXTURES.iter();
        textures.any(|name| path.with_file_name(name).is_file())
    };
    path.is_file()
        && (is_called(streamed::META)
            || by_content(path).is_some()
            || is_called(sog::META) && has_texture())
}
