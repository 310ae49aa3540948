//! Writes splat files, which are replaced completely or not at all, and bytes in memory.

use super::checked::check;
use super::format::{Writer, one_file};
use super::watch::{self, Watch};
use super::{Format, WriteOptions};
use crate::{Error, NoProgress, Progress, Result, Splats};
use dapple_base::atomic::{appeared, replace_folder, write_atomically, write_new};
use std::io;
use std::path::Path;

/// Number of Gaussians from which writing row by row reports progress.
const TOLD_ROWS: usize = 300_000;

/// Writes splats; the file is replaced completely or not at all. Spherical harmonics above the format's degree are
/// dropped.
///
/// # Errors
/// A file that cannot be written; arrays of `splats` with different lengths; a number that is not finite, or would not
/// be in the file. After an error, the old file is unchanged.
pub fn write(path: &Path, splats: &Splats, format: Format) -> Result<()> {
    write_with(path, splats, format, &WriteOptions::default())
}

/// [`write()`], with options of the formats.
///
/// # Errors
/// The errors of [`write()`]; more splats than the format can hold.
pub fn write_with(
    path: &Path,
    splats: &Splats,
    format: Format,
    options: &WriteOptions,
) -> Result<()> {
    write_with_progress(path, splats, format, options, &NoProgress)
}

/// [`write_with`] with progress reports for operations that take a second or more; it can be stopped.
///
/// # Errors
/// The errors of [`write_with`]; a request to stop.
pub fn write_with_progress(
    path: &Path,
    splats: &Splats,
    format: Format,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<()> {
    check(splats, format, options)?;
    let known = format.known();
    if splats.sh_degree > known.max_sh_degree {
        let less = splats.clone().with_sh_degree(known.max_sh_degree);
        return write_with_progress(path, &less, format, options, progress);
    }
    match known.write {
        Writer::Rows(write) => {
            let watch = Watch::start(progress, "writing splats", splats.len(), TOLD_ROWS);
            write_bytes(path, options, |out| {
                let mut out = watch::Counted::new(out, &watch, row_bytes(splats, format));
                write(&mut out, splats, options)
            })
        }
        Writer::Whole(_) | Writer::Folder(..) if splats.is_empty() => {
            Err(nothing_to_write(format).at_path(path))
        }
        Writer::Whole(encode) => {
            let bytes = encode(splats, options, progress)?;
            write_bytes(path, options, |out| out.write_all(&bytes))
        }
        Writer::Folder(encode, is_part) => {
            let files = encode(splats, options, progress)?;
            if options.refuses_existing && path.exists() {
                return Err(appeared(path));
            }
            replace_folder(path.parent().unwrap_or(Path::new("")), &files, &is_part)
        }
        Writer::None => Err(not_written(format).at_path(path)),
    }
}

fn write_bytes(
    path: &Path,
    options: &WriteOptions,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<()> {
    match options.refuses_existing {
        true => write_new(path, write),
        false => write_atomically(path, write),
    }
}

/// Returns the approximate bytes per Gaussian of formats that are written row by row.
fn row_bytes(splats: &Splats, format: Format) -> usize {
    let rest = splats.sh_rest_stride();
    match format {
        Format::Splat => 32,
        Format::CompressedPly => 16 + rest,
        // Normals are three floats, and no program uses them.
        _ => splats.size_bytes() / splats.len().max(1) + 12,
    }
}

/// Encodes a file in memory.
///
/// # Errors
/// See [`write_with`].
pub fn encode(splats: &Splats, format: Format, options: &WriteOptions) -> Result<Vec<u8>> {
    check(splats, format, options)?;
    let known = format.known();
    if splats.sh_degree > known.max_sh_degree {
        let less = splats.clone().with_sh_degree(known.max_sh_degree);
        return encode(&less, format, options);
    }
    match known.write {
        Writer::Rows(write) => {
            let mut bytes = Vec::new();
            write(&mut bytes, splats, options)
                .map_err(|e| Error::io("cannot pack the splats", "", e))?;
            Ok(bytes)
        }
        Writer::Whole(_) if splats.is_empty() => Err(nothing_to_write(format)),
        Writer::Whole(encode) => encode(splats, options, &NoProgress),
        Writer::Folder(..) => Err(Error::unsupported(
            "a SOG folder is several files, and these bytes are of one",
        )
        .hint("choose .sog: the same in one file")),
        Writer::None => Err(not_written(format)),
    }
}

/// Encodes the files of a format that is a folder, in memory, with their names in it; the one that names the others is
/// last.
///
/// # Errors
/// The errors of [`encode`]; a format that is one file.
pub fn encode_files(
    splats: &Splats,
    format: Format,
    options: &WriteOptions,
) -> Result<Vec<(String, Vec<u8>)>> {
    check(splats, format, options)?;
    match format.known().write {
        Writer::Folder(..) if splats.is_empty() => Err(nothing_to_write(format)),
        Writer::Folder(encode, _) => encode(splats, options, &NoProgress),
        _ => Err(one_file(format)),
    }
}

impl Format {
    /// Returns the format for the name of a path, for writing.
    ///
    /// # Errors
    /// The errors of [`Self::of_name`]; a format that is only read.
    pub fn to_write(path: &Path) -> Result<Self> {
        let format = Self::of_name(path)?;
        match format.is_written() {
            true => Ok(format),
            false => Err(not_written(format).at_path(path)),
        }
    }
}

fn not_written(format: Format) -> Error {
    let what = format!(".{} files are read, not written", format.extension());
    let hint = format!("end the name in {}", Format::written_extensions());
    Error::unsupported(what).hint(hint)
}

fn nothing_to_write(format: Format) -> Error {
    let what = format!(
        "a {} file holds at least one Gaussian, and there is none",
        format.file_name("")
    );
    Error::unsupported(what).hint("only .ply and .splat files can be empty")
}
