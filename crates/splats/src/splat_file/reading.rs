//! Reads splat files, and bytes in memory. The content determines the format, or the name if the content has no
//! signature.

use super::files::{self, Files};
use super::format::one_file;
use super::{Format, ReadOptions, SplatMetadata, described, foreign, glb, sizes, sog, streamed};
use crate::mapped::with_bytes;
use crate::{Error, NoProgress, Progress, Result, Splats};
use std::path::Path;

/// Number of bytes that identify a format.
const TELLING_BYTES: usize = 16;

/// Reads splats and the metadata of their file. The content determines the format, or the name if the content has no
/// signature.
///
/// # Errors
/// A file that cannot be read, that is of no known format, or that violates its format; the error names the place.
pub fn read(path: &Path) -> Result<(Splats, SplatMetadata)> {
    read_with(path, &ReadOptions::default())
}

/// [`read`] with options.
///
/// # Errors
/// See [`read`].
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<(Splats, SplatMetadata)> {
    read_with_progress(path, options, &NoProgress)
}

/// [`read_with`] with progress reports for files that take about a second or more: PLY, SPZ and SOG.
///
/// # Errors
/// See [`read`].
pub fn read_with_progress(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    sizes::told(read_any(path, options, progress)?)
}

fn read_any(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    // JSON files are recognised by their content.
    let by_name = described::by_content(path).or(Format::of_name(path).ok());
    match by_name {
        Some(Format::SogFolder) => return sog::read_folder(path, progress),
        Some(Format::StreamedSog) => return streamed::read_folder(path, progress),
        _ => {}
    }
    let is_content = |bytes: &[u8], format: &Format| (format.known().is_content)(bytes);
    let by_content = |bytes: &[u8]| Format::ALL.into_iter().find(|f| is_content(bytes, f));
    // A file without a signature and with an unknown name is not read to its end, because a device file has none.
    let is_wanted = |bytes: &[u8]| by_content(bytes).or(by_name).is_some();
    with_bytes(path, TELLING_BYTES, is_wanted, |bytes| {
        // ZIP archives are used by other formats than SOG too.
        let is_told = matches!(by_content(bytes), None | Some(Format::Sog)) && by_name.is_none();
        let unknown = || is_told.then(|| foreign::by_name(path)).flatten();
        if let Some(error) = foreign::by_content(bytes).or_else(unknown) {
            return Err(error);
        }
        if bytes.is_empty() {
            return Err(Error::input("the file is empty")
                .hint("the program that wrote it did not finish, or the disk is full: write or copy it again"));
        }
        let Some(format) = by_content(bytes).or(by_name) else {
            return Err(Error::input(
                "this is no file of splats: neither its content nor its name is of a known format",
            )
            .hint(format!("name a file of splats: {}", Format::extensions())));
        };
        if matches!(format, Format::Gltf | Format::Glb) {
            let folder = files::Folder(path.parent().unwrap_or(Path::new("")));
            return glb::parse_beside(bytes, &folder, options);
        }
        (format.known().read)(bytes, options, progress)
    })
}

/// Reads splats from the bytes of a file of this format.
///
/// # Errors
/// Bytes that violate the format; the error names the place.
pub fn parse(bytes: &[u8], format: Format) -> Result<(Splats, SplatMetadata)> {
    parse_with(bytes, format, &ReadOptions::default())
}

/// [`parse`] with options.
///
/// # Errors
/// See [`parse`].
pub fn parse_with(
    bytes: &[u8],
    format: Format,
    options: &ReadOptions,
) -> Result<(Splats, SplatMetadata)> {
    sizes::told((format.known().read)(bytes, options, &NoProgress)?)
}

/// Reads splats from the files of a format that is a folder, in memory: by their names in it, as returned by
/// [`encode_files`](super::encode_files).
///
/// # Errors
/// The errors of [`parse`]; a format that is one file.
pub fn parse_files(files: &[(String, Vec<u8>)], format: Format) -> Result<(Splats, SplatMetadata)> {
    let files = files::Memory(files);
    let meta = files.get(format.extension());
    let read = match format {
        Format::SogFolder => {
            let beside = files::SiblingFiles::new(&files, sog::META);
            sog::parse_beside(&meta?, &beside, &NoProgress)
        }
        Format::StreamedSog => streamed::parse_beside(&meta?, &files, &NoProgress),
        _ => Err(one_file(format)),
    };
    sizes::told(read?)
}

/// Returns the bytes of the file at `path`. For a SOG folder's `meta.json` or a `lod-meta.json`, adds the bytes of the
/// textures. 0 for a missing file.
pub fn size_bytes(path: &Path, format: Format) -> u64 {
    match format {
        Format::SogFolder => sog::size_bytes(path),
        Format::StreamedSog => streamed::size_bytes(path),
        _ => std::fs::metadata(path).map_or(0, |file| file.len()),
    }
}
