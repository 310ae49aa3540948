//! SOG, PlayCanvas' splats in images: a few lossless WebP textures, one texel per Gaussian, and a `meta.json`; in a
//! folder, or together in a ZIP archive with the extension `.sog`.
//!
//! 1. Gaussians are sorted along a Morton curve, so that neighbours in an image are neighbours in space.
//! 2. `means_l`, `means_u`: sign(p) ln(1 + |p|) within the scene's range, 16 bits, low and high byte in separate
//!    textures.
//! 3. `quats`: the three smaller components in 8 bits, the largest's index in alpha, from 252.
//! 4. `scales` (logarithms) and `sh0`: 8-bit indices into a codebook that all axes or channels share (`codebook`); the
//!    opacity in the alpha of `sh0`.
//! 5. Harmonics: a palette of at most 65 536 vectors (`palette`), its values through another codebook; a texel of
//!    `shN_labels` selects the vector.
//!
//! The format's description and its first writer differ in places; files follow the writer (`splat-transform`). Version
//! 2 is written. Version 1 is also read: it has limits by channel instead of codebooks, and the opacity as a logit
//! (`plan`).

mod archive;
mod codebook;
mod huffman;
mod lossless;
mod meta;
mod palette;
mod picture;
mod plan;
mod read;
mod write;

pub(super) use read::{parse, parse_beside, parse_meta_alone, read_folder, within};
pub(super) use write::{encode, encode_files, encode_ordered};

use super::files::{META_BYTES, is_inside};
use dapple_base::bounded;
use std::ffi::OsStr;
use std::path::Path;

/// File that names the others.
pub(super) const META: &str = "meta.json";

/// Names of the textures that Dapple and the first writer write.
pub(super) const TEXTURES: [&str; 7] = [
    "means_l.webp",
    "means_u.webp",
    "scales.webp",
    "quats.webp",
    "sh0.webp",
    "shN_centroids.webp",
    "shN_labels.webp",
];

/// Returns true if a folder's entry has the name of a SOG file.
pub(super) fn is_part(path: &Path) -> bool {
    let name = path.file_name();
    let mut names = TEXTURES.iter().chain([&META]);
    names.any(|own| name == Some(OsStr::new(own)))
}

/// Returns the bytes of a `meta.json` and of the textures that it names.
pub(super) fn size_bytes(path: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let meta = bounded::read("cannot read the file", path, META_BYTES).unwrap_or_default();
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap_or_default();
    let parts = meta.as_object().into_iter().flat_map(|meta| meta.values());
    let names = parts
        .filter_map(|part| part.get("files")?.as_array())
        .flatten()
        .filter_map(|name| name.as_str().filter(|name| is_inside(name)));
    size(path)
        + names
            .map(|name| size(&path.with_file_name(name)))
            .sum::<u64>()
}

/// Returns true if bytes begin like a ZIP archive.
pub(super) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

const DAMAGED: &str = "the file is damaged or cut: copy or export it again";

/// Entries per row of the palette's texture; the texels of an entry are side by side.
const ENTRIES_A_ROW: usize = 64;

/// Alpha of a quaternion whose largest component has index 0.
const LARGEST_FROM: u8 = 252;
