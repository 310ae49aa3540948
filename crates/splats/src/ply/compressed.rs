//! The compressed PLY that SuperSplat and `splat-transform` write: one Gaussian in four words.
//!
//! Source: PlayCanvas ("Compressing Gaussian Splats", blog.playcanvas.com, 2024):
//!
//! 1. Element `chunk` has one row per [`CHUNK`] Gaussians: the ranges of their centres, of their logarithmic scales,
//!    and in newer files of their colours (older ones: 0 to 1).
//! 2. Element `vertex` has four words per Gaussian. `packed_position` and `packed_scale` hold x, y, z in 11, 10 and 11
//!    bits, from the top, within the chunk's range. `packed_rotation` holds in its top two bits which of w, x, y, z is
//!    the largest, below them the other three in 10 bits each, from -1/sqrt 2 to 1/sqrt 2; the largest follows from the
//!    length, 1. `packed_color` holds red, green, blue in 8 bits each, within the chunk's range, and the opacity in 8.
//! 3. Element `sh`, if present, has the other coefficients of each Gaussian as bytes, channel by channel as in the
//!    plain layout, from -4 to 4 in 256 equal steps. A byte is read as the middle of its step; the first and the last
//!    byte are read as the ends.
//! 4. The values are converted to [`Splats`] in blocks of rows, in parallel.

use super::header::{Header, Scalar};
use super::splats::{Block, Degrees, blocks, empty, not_finite};
use super::table::{BLOCK_ROWS, Column, Table};
use crate::splat_file::{ReadOptions, logit};
use crate::{Error, Result, SH_C0, Splats};
use rayon::prelude::*;

/// Gaussians that share a row of `chunk`.
pub(super) const CHUNK: usize = 256;

/// Columns of a packed Gaussian.
pub(super) const PACKED: [&str; 4] = [
    "packed_position",
    "packed_rotation",
    "packed_scale",
    "packed_color",
];

/// Columns of `chunk`, in the order of [`Ranges`].
pub(super) const CHUNK_COLUMNS: [&str; 12] = [
    "min_x",
    "min_y",
    "min_z",
    "max_x",
    "max_y",
    "max_z",
    "min_scale_x",
    "min_scale_y",
    "min_scale_z",
    "max_scale_x",
    "max_scale_y",
    "max_scale_z",
];

/// Columns of the colour ranges in newer files.
pub(super) const COLOUR_COLUMNS: [&str; 6] = ["min_r", "min_g", "min_b", "max_r", "max_g", "max_b"];

const DAMAGED: &str = "the file is damaged: compress or export it again";

/// Ranges of a chunk: minimum and maximum of centres, scales and colours.
#[derive(Debug, Clone, Copy)]
struct Ranges([[[f32; 3]; 2]; 3]);

impl Ranges {
    /// Returns the value at the fraction `share` (0 to 1) of range `which` on `axis`.
    fn at(&self, which: usize, axis: usize, share: f64) -> f64 {
        let [low, high] = self.0[which];
        f64::from(low[axis]) * (1.0 - share) + f64::from(high[axis]) * share
    }
}

/// Returns true if a file's vertices are packed.
pub(super) fn is_compressed(header: &Header) -> bool {
    header.elements.iter().any(|element| {
        element.name == "vertex" && element.properties.iter().any(|p| p.name == PACKED[0])
    })
}

/// Unpacks a compressed file, and returns notes on ignored data.
pub(super) fn read(
    header: &Header,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Splats, Vec<String>)> {
    let vertices = Table::find(header, bytes, "vertex")?;
    let packed = vertices.require(&PACKED, "a compressed file")?;
    for column in &packed {
        expect_type(column, &[Scalar::U32, Scalar::I32], "uint")?;
    }
    let rows = vertices.rows();
    let chunks = chunks(header, bytes, rows, options)?;
    let harmonics = match header.elements.iter().any(|element| element.name == "sh") {
        true => Some(Table::find(header, bytes, "sh")?),
        false => None,
    };
    let (degrees, rest) = match &harmonics {
        Some(table) => rest_columns(table, rows)?,
        None => (Degrees::NONE, Vec::new()),
    };

    // Within a small factor of the file's size, which has been checked.
    let mut splats = empty(rows, degrees.read);
    blocks(&mut splats).into_par_iter().for_each(|block| {
        if let Some(table) = &harmonics {
            unpack_rest(table, &rest, block.first, block.sh_rest);
        }
        unpack(&vertices, &packed, &chunks, block);
    });
    Ok((splats, degrees.note().into_iter().collect()))
}

fn expect_type(column: &Column, known: &[Scalar], name: &str) -> Result<()> {
    if known.contains(&column.declared) {
        return Ok(());
    }
    Err(Error::input(format!(
        "property {} of the compressed PLY file is not a {name}",
        column.name
    ))
    .hint(DAMAGED))
}

/// Reads the ranges of every chunk.
fn chunks(
    header: &Header,
    bytes: &[u8],
    rows: usize,
    options: &ReadOptions,
) -> Result<Vec<Ranges>> {
    let table = Table::find(header, bytes, "chunk")?;
    let needed = rows.div_ceil(CHUNK);
    if table.rows() != needed {
        return Err(Error::input(format!(
            "the compressed PLY file has {} chunks, but its {rows} Gaussians need {needed} of \
             {CHUNK} each",
            table.rows()
        ))
        .hint(DAMAGED));
    }
    let mut columns = table.require(&CHUNK_COLUMNS, "a compressed file")?;
    if table.column(COLOUR_COLUMNS[0]).is_some() {
        columns.extend(table.require(&COLOUR_COLUMNS, "a compressed file")?);
    }
    let plain = Ranges([[[0.0; 3]; 2], [[0.0; 3]; 2], [[0.0; 3], [1.0; 3]]]);
    let mut ranges = vec![plain; needed];
    for (at, column) in columns.into_iter().enumerate() {
        let (which, end, axis) = (at / 6, at / 3 % 2, at % 3);
        // With `keep`, a chunk whose range is not finite has only non-finite Gaussians.
        let put = |row: usize, value: f32| {
            ranges[row].0[which][end][axis] = if value.is_finite() { value } else { f32::NAN };
        };
        if let Some(bad) = table.gather(column, 0, needed, put)
            && !options.keeps_non_finite()
        {
            return Err(not_finite(bad, &column.name, "chunk"));
        }
    }
    Ok(ranges)
}

/// Returns the degrees of the element `sh`, and its columns in the file's order.
fn rest_columns<'a>(table: &'a Table<'_>, rows: usize) -> Result<(Degrees, Vec<&'a Column>)> {
    if table.rows() != rows {
        return Err(Error::input(format!(
            "the compressed PLY file has spherical harmonics of {} Gaussians, but {rows} Gaussians",
            table.rows()
        ))
        .hint(DAMAGED));
    }
    let degrees = Degrees::find(table)?;
    let names = degrees.rest_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns = table.require(&names, "a compressed file")?;
    for column in &columns {
        expect_type(column, &[Scalar::U8], "uchar")?;
    }
    Ok((degrees, columns))
}

/// Fills a block's `[rows, K-1, 3]` from columns `[3, K-1]`.
fn unpack_rest(table: &Table<'_>, columns: &[&Column], first: usize, sh_rest: &mut [f32]) {
    let coefficients = columns.len() / 3;
    if coefficients == 0 {
        return;
    }
    let rows = sh_rest.len() / columns.len();
    for (at, column) in columns.iter().enumerate() {
        let place = at % coefficients * 3 + at / coefficients;
        // Bytes are finite.
        let _ = table.gather(column, first, rows, |i, value| {
            let step = match value {
                0.0 => 0.0,
                255.0 => 256.0,
                middle => middle + 0.5,
            };
            sh_rest[i * columns.len() + place] = step / 32.0 - 4.0;
        });
    }
}

fn unpack(table: &Table<'_>, packed: &[&Column], chunks: &[Ranges], block: Block<'_>) {
    let mut words = [[0u32; 4]; BLOCK_ROWS];
    for (k, column) in packed.iter().enumerate() {
        table.words(column, block.first, |i, word| words[i][k] = word);
    }
    for (i, &[position, rotation, scale, colour]) in
        words.iter().enumerate().take(block.means.len())
    {
        let ranges = &chunks[(block.first + i) / CHUNK];
        let (position, scale) = (shares_11_10_11(position), shares_11_10_11(scale));
        let [red, green, blue, alpha] = colour.to_be_bytes().map(|c| f64::from(c) / 255.0);
        for (axis, channel) in [red, green, blue].into_iter().enumerate() {
            block.means[i][axis] = narrow(ranges.at(0, axis, position[axis]));
            block.scales[i][axis] = narrow(ranges.at(1, axis, scale[axis]));
            let shown = ranges.at(2, axis, channel);
            block.sh0[i][axis] = narrow((shown - 0.5) / f64::from(SH_C0));
        }
        block.quats[i] = rotation_of(rotation);
        block.opacities[i] = logit(alpha as f32);
    }
}

/// Clamps to `f32`. Ranges may be as wide as `f32` allows, so the values computed from them may exceed it.
fn narrow(value: f64) -> f32 {
    value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}

fn shares_11_10_11(word: u32) -> [f64; 3] {
    [
        f64::from(word >> 21) / 2047.0,
        f64::from(word >> 11 & 0x3ff) / 1023.0,
        f64::from(word & 0x7ff) / 2047.0,
    ]
}

/// Decodes `[w, x, y, z]` from the index of the largest and the other three in order.
fn rotation_of(word: u32) -> [f32; 4] {
    let largest = (word >> 30) as usize;
    let mut quat = [0.0f64; 4];
    let mut rest = 1.0;
    let mut shift = 30;
    for (at, value) in quat.iter_mut().enumerate() {
        if at != largest {
            shift -= 10;
            let share = f64::from(word >> shift & 0x3ff) / 1023.0;
            *value = (share - 0.5) * std::f64::consts::SQRT_2;
            rest -= *value * *value;
        }
    }
    // Damaged words may already be longer than 1.
    quat[largest] = rest.max(0.0).sqrt();
    quat.map(|component| component as f32)
}
