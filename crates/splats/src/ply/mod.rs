//! Splats and point clouds in PLY files.
//!
//! The layout is the common one of 3D Gaussian Splatting (Kerbl et al. 2023): one `vertex` per Gaussian with
//! `x y z nx ny nz f_dc_0..2 f_rest_* opacity scale_0..2 rot_0..3`, scales as natural logarithms, opacity as logit,
//! rotation `w x y z`. The file stores `f_rest` channel by channel (`[3, K-1]`: all of red, then green, then blue),
//! [`Splats::sh_rest`] coefficient by coefficient (`[K-1, 3]`).
//!
//! 1. `header`: the elements and properties, and the offset of the data.
//! 2. `table`: the rows of `vertex`, checked against the size of the file before anything is allocated; any scalar
//!    type, either byte order, ASCII too.
//! 3. `splats`, `points`: columns found by name, in any order, copied in blocks of rows in parallel; the rest is
//!    ignored.
//! 4. `compressed`: SuperSplat's layout of 256 Gaussians per chunk, packed into integers; `activated`: opacities and
//!    lengths of programs that store these instead of logits and logarithms.
//! 5. `file`: reads and writes by path.
//! 6. `write`: the writer of the plain layout, always binary little-endian; `pack`: the writer of the compressed one.

mod activated;
mod compressed;
mod doubles;
mod file;
mod header;
mod pack;
mod points;
mod splats;
mod table;
mod write;

use crate::Similarity;
use crate::splat_file::{ReadOptions, SplatMetadata};
use crate::{NoProgress, Point, Progress, Result, Splats};
use dapple_base::text;
use glam::DVec3;

pub use file::{read, read_all_points, read_points, write};
pub(crate) use pack::write_compressed_to;
pub(crate) use splats::{Block, blocks, empty};
pub(crate) use write::write_to;

/// First bytes of every PLY file.
const MAGIC: &[u8] = b"ply";

/// Returns true if bytes begin like a PLY file.
pub(crate) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// [`parse`], with the file's metadata.
pub(crate) fn parse_all(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let mut metadata = metadata(bytes)?;
    let header = header::Header::parse(bytes)?;
    if compressed::is_compressed(&header) {
        let (splats, notes) = compressed::read(&header, bytes, options)?;
        metadata.notes.extend(notes);
        return Ok((splats, metadata));
    }
    let table = table::Table::find(&header, bytes, "vertex")?;
    let (mut splats, notes) = splats::from_table(&table, options, progress)?;
    metadata.notes.extend(notes);
    let local = splats::count_from_local_origin(&table, &mut splats)?;
    metadata.origin += local;
    metadata.moved = metadata.moved.about(local);
    Ok((splats, metadata))
}

/// Reads the metadata of a PLY file, without its rows.
///
/// # Errors
/// A malformed header.
pub fn metadata(bytes: &[u8]) -> Result<SplatMetadata> {
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
    Ok(SplatMetadata {
        up: vertical_axis(&header.comments),
        antialiased: header
            .comments
            .iter()
            .fold(false, |before, text| is_mip(text).unwrap_or(before)),
        origin: header
            .comments
            .iter()
            .find_map(|text| origin(text))
            .unwrap_or_default(),
        moved: header
            .comments
            .iter()
            .find_map(|text| moved(text))
            .unwrap_or_default(),
        notes: left.map(note).into_iter().collect(),
        ..SplatMetadata::default()
    })
}

/// Returns the rendering mode in a comment, `Some(true)` for the filters of Mip-Splatting: Brush's
/// `SplatRenderMode: mip` and Postshot's `antialiased 1`. The last comment counts.
fn is_mip(comment: &str) -> Option<bool> {
    let text = comment.to_ascii_lowercase();
    let mut words = text.split([' ', ':']).filter(|word| !word.is_empty());
    match (words.next()?, words.next()?) {
        ("splatrendermode", mode) => Some(mode == "mip"),
        ("antialiased", flag) => Some(flag == "1"),
        _ => None,
    }
}

/// Parses the local origin in a comment of [`write()`]: `Origin: x y z`.
fn origin(comment: &str) -> Option<DVec3> {
    let text = comment.to_ascii_lowercase();
    let numbers = text.strip_prefix("origin:")?.split_whitespace();
    let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
    let origin = DVec3::from(<[f64; 3]>::try_from(numbers).ok()?);
    origin.is_finite().then_some(origin)
}

/// Returns the motion since training in a comment of [`write()`]: `Moved: ` and eight numbers.
fn moved(comment: &str) -> Option<Similarity> {
    let text = comment.to_ascii_lowercase();
    let numbers = text.strip_prefix("moved:")?.split_whitespace();
    let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
    Similarity::of_numbers(numbers.try_into().ok()?)
}

/// Returns the up direction in comments: an axis or three numbers; the last comment counts. Brush names the vertical
/// axis of captures, where y points down and z forward: its `y` and `z` mean -y and -z up.
fn vertical_axis(comments: &[String]) -> Option<[f64; 3]> {
    let lines: Vec<String> = comments.iter().map(|c| c.to_ascii_lowercase()).collect();
    let is_brush = lines
        .iter()
        .any(|line| line.contains("exported from brush"));
    let axes = lines
        .iter()
        .filter_map(|line| line.strip_prefix("vertical axis:"));
    axes.filter_map(|axis| direction(axis.trim(), is_brush))
        .next_back()
}

fn direction(text: &str, is_brush: bool) -> Option<[f64; 3]> {
    let (sign, axis) = match text.strip_prefix(['-', '+']) {
        Some(axis) if text.starts_with('-') => (-1.0, axis),
        Some(axis) => (1.0, axis),
        None => (1.0, text),
    };
    let down = if is_brush && axis == text { -1.0 } else { 1.0 };
    match axis {
        "x" => return Some([sign, 0.0, 0.0]),
        "y" => return Some([0.0, sign * down, 0.0]),
        "z" => return Some([0.0, 0.0, sign * down]),
        _ => {}
    }
    let is_between = |c: char| c.is_whitespace() || ",;[]()".contains(c);
    let words = text.split(is_between).filter(|word| !word.is_empty());
    let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
    let up: [f64; 3] = numbers?.try_into().ok()?;
    let length = up.iter().map(|v| v * v).sum::<f64>().sqrt();
    (length > 0.0 && length.is_finite()).then(|| up.map(|v| v / length))
}

/// Reads splats from the bytes of a PLY file.
///
/// Accepts binary of both byte orders and ASCII, scalars of any type, properties in any order, spherical harmonics of
/// degree 0 to 3, and SuperSplat's compressed layout; unknown properties and elements are skipped. Quaternions are
/// returned as stored (not normalised), except `0 0 0 0`, which is no rotation and becomes the identity.
///
/// Differences of other trainers are converted:
/// - `red green blue` instead of `f_dc_*` (an option of Nerfstudio): the equal colour;
/// - `filter_3D` (Mip-Splatting before its filter is baked): applied to scales and opacities, as in rendering;
/// - no `scale_2` (2D Gaussians): a thousandth of the shorter axis, so that the Gaussian remains a disc;
/// - an opacity of +-infinity and a scale of -infinity (converters that take the logarithm of 0): the nearest value
///   that the compressed layout can hold, +-16 and -20;
/// - opacities from 0 to 1 and lengths instead of logits and logarithms: converted to logits and logarithms;
/// - harmonics above degree 3: dropped.
///
/// # Errors
/// A malformed header, a missing property, fewer bytes than the header declares, a number of chunks or harmonics that
/// differs from the number of Gaussians, any other value that is NaN or infinite (named by property and vertex).
pub fn parse(bytes: &[u8]) -> Result<Splats> {
    Ok(parse_with(bytes, &ReadOptions::default(), &NoProgress)?.0)
}

/// Parses splats, and returns notes on the conversions.
fn parse_with(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Vec<String>)> {
    let header = header::Header::parse(bytes)?;
    if compressed::is_compressed(&header) {
        return compressed::read(&header, bytes, options);
    }
    let table = table::Table::find(&header, bytes, "vertex")?;
    splats::from_table(&table, options, progress)
}

/// [`parse_points`], with the file's metadata. Points are in the frame of [`SplatMetadata::origin`], and
/// [`SplatMetadata::remainders`] are their rounding remainders in that frame.
fn parse_all_points(bytes: &[u8]) -> Result<(Vec<Point>, SplatMetadata)> {
    let (read, mut metadata) = (points_of(bytes)?, metadata(bytes)?);
    let mut points = read.points;
    if read.dropped > 0 {
        metadata.notes.push(format!(
            "{} of {} points with NaN or infinite positions were dropped",
            read.dropped,
            read.dropped + points.len()
        ));
    }
    let header = header::Header::parse(bytes)?;
    if !compressed::is_compressed(&header) {
        let table = table::Table::find(&header, bytes, "vertex")?;
        metadata.remainders = doubles::remainders(&table, &points);
    }
    let origin = std::mem::take(&mut metadata.origin);
    if origin != DVec3::ZERO {
        doubles::count_from_zero(&mut points, &mut metadata.remainders, origin);
    }
    Ok((points, metadata))
}

/// Reads a plain point cloud from the bytes of a PLY file: `x y z`, and `red green blue` as bytes, as 16-bit integers,
/// or as floats from 0 to 1 or from 0 to 255. A file of splats gives its centres, coloured by `f_dc_*`; a file without
/// colour gives grey points. Points whose position is NaN or infinite are dropped.
///
/// # Errors
/// See [`parse`].
pub fn parse_points(bytes: &[u8]) -> Result<Vec<Point>> {
    Ok(points_of(&text::to_utf8(bytes))?.points)
}

fn points_of(bytes: &[u8]) -> Result<points::Read> {
    let header = header::Header::parse(bytes)?;
    if compressed::is_compressed(&header) {
        let (splats, _) = compressed::read(&header, bytes, &ReadOptions::default())?;
        return Ok(points::Read {
            points: points::of_splats(&splats),
            dropped: 0,
        });
    }
    points::from_table(&table::Table::find(&header, bytes, "vertex")?)
}

#[cfg(test)]
mod tests {
    use super::vertical_axis;

    #[test]
    fn up_is_what_the_program_that_wrote_it_means() {
        let up = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            vertical_axis(&lines)
        };
        // Nerfstudio.
        assert_eq!(up(&["Vertical Axis: z"]), Some([0.0, 0.0, 1.0]));
        assert_eq!(up(&["Vertical Axis: -y"]), Some([0.0, -1.0, 0.0]));
        let brush = "Exported from Brush";
        assert_eq!(up(&[brush, "Vertical axis: y"]), Some([0.0, -1.0, 0.0]));
        assert_eq!(up(&["Vertical axis: Z", brush]), Some([0.0, 0.0, -1.0]));
        assert_eq!(up(&[brush, "Vertical axis: x"]), Some([1.0, 0.0, 0.0]));
        assert_eq!(up(&[brush, "Vertical axis: -y"]), Some([0.0, -1.0, 0.0]));
        for numbers in ["0 0 1", "[0, 0, 1]", "0.0,0.0,1.0"] {
            let line = format!("Vertical axis: {numbers}");
            assert_eq!(up(&[brush, &line]), Some([0.0, 0.0, 1.0]), "{numbers}");
        }
        // The last comment counts; an invalid direction is ignored.
        let lines = [
            "Vertical axis: x",
            "Vertical axis: 3 -4 0",
            "Vertical axis: 0 0 0",
        ];
        assert_eq!(up(&lines), Some([0.6, -0.8, 0.0]));
        for none in ["0 0", "nan 0 1", "up", "1 2 3 4", ""] {
            assert_eq!(up(&[&format!("Vertical axis: {none}")]), None, "{none}");
        }
    }
}
