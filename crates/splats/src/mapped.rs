//! Reads files as bytes; large files are mapped into memory.

use crate::{Error, Result};
use dapple_base::bounded;
use std::io::Read;
use std::path::Path;

/// Files of at least this size are mapped into memory instead of copied.
const MAP_FROM_BYTES: u64 = 1 << 20;

/// Calls `parse` with the content of a file; its errors then name the file. If the first bytes, `first` of them, are
/// not `wanted`, reads no further, because a device file has no end.
pub(crate) fn with_bytes<T>(
    path: &Path,
    first: usize,
    wanted: impl FnOnce(&[u8]) -> bool,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let failed = |source| Error::io("cannot read the file", path, source);
    let mut file = bounded::open("cannot read the file", path)?;
    let metadata = file.metadata().map_err(failed)?;
    let parsed = if metadata.is_file() && metadata.len() >= MAP_FROM_BYTES {
        // SAFETY: the mapping is read-only and private to this call. If another program shortens the file during the
        // call, the system ends this process (as for every user of mmap). Changed bytes are only read as numbers and
        // checked like any others.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::WillNeed);
        parse(&map)
    } else {
        let mut bytes = Vec::new();
        file.by_ref()
            .take(first as u64)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if wanted(&bytes) {
            file.read_to_end(&mut bytes).map_err(failed)?;
        }
        parse(&bytes)
    };
    parsed.map_err(|error| match error.place() {
        Some(place) => {
            let place = format!("{}, {place}", path.display());
            error.at(place)
        }
        None => error.at_path(path),
    })
}
