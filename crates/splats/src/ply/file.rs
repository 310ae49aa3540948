//! Reads and writes PLY files by their paths.

use super::{MAGIC, is_content, parse, parse_all_points};
use crate::mapped::with_bytes;
use crate::splat_file::{self, Format, SplatMetadata};
use crate::{Point, Result, Splats};
use dapple_base::text;
use std::path::Path;

/// Reads splats from a PLY file; see [`parse`](super::parse()). Large files are memory-mapped.
///
/// # Errors
/// The errors of [`parse`](super::parse()); a file that cannot be read.
pub fn read(path: &Path) -> Result<Splats> {
    with_bytes(path, MAGIC.len(), is_content, parse)
}

/// Reads a plain point cloud from a PLY file; see [`parse_points`](super::parse_points).
///
/// # Errors
/// The errors of [`parse_points`](super::parse_points); a file that cannot be read.
pub fn read_points(path: &Path) -> Result<Vec<Point>> {
    Ok(read_all_points(path)?.0)
}

/// Reads a plain point cloud like [`read_points`], with the file's metadata.
///
/// # Errors
/// See [`read_points`].
pub fn read_all_points(path: &Path) -> Result<(Vec<Point>, SplatMetadata)> {
    // Magic number with a byte order mark, which editors put before the header of an ASCII file.
    let first = 2 * (1 + MAGIC.len());
    let wanted = |bytes: &[u8]| is_content(&text::to_utf8(bytes));
    with_bytes(path, first, wanted, |bytes| {
        parse_all_points(&text::to_utf8(bytes))
    })
}

/// Writes splats as binary little-endian PLY, with the normals of the layout as zeros. The file is replaced completely
/// or not at all. Values are written bit by bit.
///
/// # Errors
/// See [`splat_file::write`](crate::splat_file::write()).
pub fn write(path: &Path, splats: &Splats) -> Result<()> {
    splat_file::write(path, splats, Format::Ply)
}
