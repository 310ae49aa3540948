//! Files that are either whole or not there.
//!
//! 1. Write to a temporary file in the same folder (so that renaming never crosses a file system),
//!    through a buffer.
//! 2. Flush and fsync: a full disk shows here, and the name never points at data that a power
//!    cut could lose.
//! 3. Rename over the target in one step. Any error before removes the temporary file and leaves
//!    what was there untouched.

use crate::{Error, Result};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes collected before the operating system is called.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes a file through `write` so that `path` holds all of it or what it held before.
///
/// # Errors
/// When the folder is missing or not writable, when `write` fails (a full disk, its own error), or
/// when `path` cannot be replaced. Nothing is left behind.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let failed = |source| Error::io("cannot write the file", path, source);
    if path.is_dir() {
        return Err(Error::input("a folder stands where a file is to be written")
            .at_path(path)
            .hint("name a file, for example one inside that folder"));
    }
    let folder = folder_of(path);
    let temporary = tempfile::Builder::new()
        .prefix(".dapple-")
        .suffix(".part")
        .tempfile_in(&folder)
        .map_err(|source| Error::io("cannot write into the folder", &folder, source))?;
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, temporary);
    write(&mut buffered).map_err(failed)?;
    let temporary = buffered.into_inner().map_err(|e| failed(e.into_error()))?;
    temporary.as_file().sync_all().map_err(failed)?;
    #[cfg(unix)]
    give_ordinary_permissions(temporary.as_file()).map_err(failed)?;
    temporary.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

/// The folder that holds `path`; "." for a bare name.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Temporary files are private to their owner; results are ordinary files. The process's umask
/// cannot be read without changing it, so this takes the common one.
#[cfg(unix)]
fn give_ordinary_permissions(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}
