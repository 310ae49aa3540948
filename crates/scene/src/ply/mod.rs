//! Splats and point clouds in PLY files.
//!
//! The layout is the one that the ecosystem of 3D Gaussian Splatting shares (Kerbl et al. 2023):
//! one `vertex` a Gaussian with `x y z nx ny nz f_dc_0..2 f_rest_* opacity scale_0..2 rot_0..3`,
//! scales as natural logarithms, opacity as logit, rotation `w x y z`. The file holds `f_rest`
//! channel by channel (`[3, K-1]`: all of red, then green, then blue), [`Splats::sh_rest`]
//! coefficient by coefficient (`[K-1, 3]`).
//!
//! 1. `header`: which elements and properties there are, and where the data begins.
//! 2. `table`: the rows of `vertex`, checked against the size of the file before anything is
//!    allocated; any scalar type, either byte order, ASCII too.
//! 3. `splats`, `points`: columns found by name, in any order, copied in blocks of rows in
//!    parallel; the rest is ignored.
//! 4. `compressed`: SuperSplat's layout of 256 Gaussians a chunk, packed into integers.
//! 5. `write`: the plain layout backwards, always binary little-endian; `pack`: the compressed one.

mod compressed;
mod header;
mod pack;
mod points;
mod splats;
mod table;
mod write;

use crate::mapped::with_bytes;
use crate::splat_file::{Aside, ReadOptions};
use crate::{NoProgress, Point, Progress, Result, Splats, text};
use std::path::Path;

pub(crate) use pack::write_compressed_to;
pub(crate) use splats::{Block, blocks, empty};
pub use write::write;
pub(crate) use write::write_to;

/// What every PLY file begins with.
const MAGIC: &[u8] = b"ply";

/// Reads splats from a PLY file; see [`parse`]. Large files are memory-mapped.
///
/// # Errors
/// As [`parse`], and when the file cannot be read.
pub fn read(path: &Path) -> Result<Splats> {
    with_bytes(path, MAGIC.len(), is_content, parse)
}

/// Whether bytes begin as a PLY file's do.
pub(crate) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// [`parse`], with what the file says beside.
pub(crate) fn parse_all(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    Ok((parse_with(bytes, options, progress)?, aside(bytes)?))
}

/// What a PLY file says beside its rows.
///
/// # Errors
/// A malformed header.
pub fn aside(bytes: &[u8]) -> Result<Aside> {
    let header = header::Header::parse(bytes)?;
    let unit = match header.encoding {
        header::Encoding::Ascii => "line",
        _ => "byte",
    };
    let note = |count: u64| {
        let (s, follows) = if count == 1 {
            ("", "follows")
        } else {
            ("s", "follow")
        };
        format!(
            "{count} {unit}{s} that no row of the header accounts for {follows} the last one, unread: is \
             this the file that it should be?"
        )
    };
    let left = table::left_over(&header, bytes).filter(|&count| count > 0);
    Ok(Aside {
        up: header.comments.iter().find_map(|text| vertical_axis(text)),
        antialiased: header
            .comments
            .iter()
            .fold(false, |before, text| is_mip(text).unwrap_or(before)),
        notes: left.map(note).into_iter().collect(),
        ..Aside::default()
    })
}

/// Whether a comment says how splats are to be drawn, and if so, whether with the filters of Mip-Splatting: Brush's
/// `SplatRenderMode: mip` and Postshot's `antialiased 1`. The last one counts.
fn is_mip(comment: &str) -> Option<bool> {
    let text = comment.to_ascii_lowercase();
    let mut words = text.split([' ', ':']).filter(|word| !word.is_empty());
    match (words.next()?, words.next()?) {
        ("splatrendermode", mode) => Some(mode == "mip"),
        ("antialiased", flag) => Some(flag == "1"),
        _ => None,
    }
}

fn vertical_axis(comment: &str) -> Option<[f64; 3]> {
    let text = comment.to_ascii_lowercase();
    let axis = text.strip_prefix("vertical axis:")?.trim();
    let (sign, axis) = match axis.strip_prefix('-') {
        Some(axis) => (-1.0, axis),
        None => (1.0, axis),
    };
    Some(match axis {
        "x" => [sign, 0.0, 0.0],
        "y" => [0.0, sign, 0.0],
        "z" => [0.0, 0.0, sign],
        _ => return None,
    })
}

/// Reads splats from the bytes of a PLY file.
///
/// Binary of both byte orders and ASCII, scalars of any type, properties in any order, spherical
/// harmonics of degree 0 to 3, and SuperSplat's compressed layout; unknown properties and elements
/// are skipped. Quaternions stay as stored (not normalised), but for `0 0 0 0`, which is no rotation
/// and becomes the identity.
///
/// What other trainers leave out or add is made up for:
/// - `red green blue` instead of `f_dc_*` (Nerfstudio can be told to write them): the same colour;
/// - `filter_3D` (Mip-Splatting before its filter is fused): put into scales and opacities, as
///   rendering would;
/// - no `scale_2` (2D Gaussians): a thousandth of the shorter axis, so that a disc stays one;
/// - an opacity of +-infinity and a scale of -infinity (converters that take the logarithm of 0):
///   the nearest value that the compressed layout knows, +-16 and -20.
///
/// # Errors
/// A malformed header, a missing property, fewer bytes than the header promises, chunks or harmonics
/// that are not as many as the Gaussians need, any other value that is NaN or infinite (named by
/// property and vertex).
pub fn parse(bytes: &[u8]) -> Result<Splats> {
    parse_with(bytes, &ReadOptions::default(), &NoProgress)
}

fn parse_with(bytes: &[u8], options: &ReadOptions, progress: &dyn Progress) -> Result<Splats> {
    let header = header::Header::parse(bytes)?;
    if compressed::is_compressed(&header) {
        return compressed::read(&header, bytes, options);
    }
    let table = table::Table::find(&header, bytes, "vertex")?;
    splats::from_table(&table, options, progress)
}

/// Reads a plain point cloud from a PLY file; see [`parse_points`].
///
/// # Errors
/// As [`parse_points`], and when the file cannot be read.
pub fn read_points(path: &Path) -> Result<Vec<Point>> {
    Ok(read_all_points(path)?.0)
}

/// Reads a plain point cloud as [`read_points`], and what the file says beside it.
///
/// # Errors
/// As [`read_points`].
pub fn read_all_points(path: &Path) -> Result<(Vec<Point>, Aside)> {
    // Magic number with a byte order mark, which editors put before the header of an ASCII file.
    let first = 2 * (1 + MAGIC.len());
    let wanted = |bytes: &[u8]| is_content(&text::to_utf8(bytes));
    with_bytes(path, first, wanted, |bytes| {
        let bytes = text::to_utf8(bytes);
        let read = points_of(&bytes)?;
        let mut aside = aside(&bytes)?;
        if read.dropped > 0 {
            aside.notes.push(format!(
                "{} of {} points with NaN or infinite positions were left out",
                read.dropped,
                read.dropped + read.points.len()
            ));
        }
        Ok((read.points, aside))
    })
}

/// Reads a plain point cloud from the bytes of a PLY file: `x y z`, and `red green blue` as bytes,
/// as 16-bit integers, or as floats from 0 to 1 or from 0 to 255. A file of splats gives its centres,
/// coloured by `f_dc_*`; a file without colour gives grey points. Points whose position is NaN or infinite
/// are left out.
///
/// # Errors
/// As [`parse`].
pub fn parse_points(bytes: &[u8]) -> Result<Vec<Point>> {
    Ok(points_of(&text::to_utf8(bytes))?.points)
}

fn points_of(bytes: &[u8]) -> Result<points::Read> {
    let header = header::Header::parse(bytes)?;
    if compressed::is_compressed(&header) {
        let splats = compressed::read(&header, bytes, &ReadOptions::default())?;
        return Ok(points::Read {
            points: points::of_splats(&splats),
            dropped: 0,
        });
    }
    points::from_table(&table::Table::find(&header, bytes, "vertex")?)
}
