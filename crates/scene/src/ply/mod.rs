//! Splats and point clouds in PLY files.

use crate::{Error, Point, Result, Splats};
use std::path::Path;

/// Reads splats from a PLY file.
pub fn read(path: &Path) -> Result<Splats> {
    Err(Error::unsupported("reading PLY is not built yet").at_path(path))
}

/// Reads splats from the bytes of a PLY file.
pub fn parse(bytes: &[u8]) -> Result<Splats> {
    let _ = bytes;
    Err(Error::unsupported("reading PLY is not built yet"))
}

/// Writes splats as binary little-endian PLY, atomically.
pub fn write(path: &Path, splats: &Splats) -> Result<()> {
    let _ = splats;
    Err(Error::unsupported("writing PLY is not built yet").at_path(path))
}

/// Reads a plain point cloud (`x y z` and, if there, `red green blue`).
pub fn read_points(path: &Path) -> Result<Vec<Point>> {
    Err(Error::unsupported("reading PLY is not built yet").at_path(path))
}
