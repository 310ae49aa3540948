//! Converts the rows of a PLY file to plain coloured points.

use super::header::Scalar;
use super::table::{BLOCK_ROWS, Column, Table};
use crate::{Point, Result, SH_C0, Splats};
use rayon::prelude::*;

/// Source of a colour.
enum Colour<'a> {
    /// Three columns, and the value of white.
    Rgb(Vec<&'a Column>, f32),
    /// Coefficient 0 of spherical harmonics: a file of splats.
    Sh0(Vec<&'a Column>),
    /// No colour in the file.
    Grey,
}

/// Names of colour columns, the usual ones first.
const COLOURS: [[&str; 3]; 5] = [
    ["red", "green", "blue"],
    ["diffuse_red", "diffuse_green", "diffuse_blue"],
    ["r", "g", "b"],
    ["Red", "Green", "Blue"],
    ["R", "G", "B"],
];

/// Points of a PLY file.
pub(super) struct Read {
    /// Points with a finite position.
    pub(super) points: Vec<Point>,
    /// Number of rows whose position is NaN or infinite.
    pub(super) dropped: usize,
}

/// Copies positions and colours, in parallel, and drops points without a position.
pub(super) fn from_table(table: &Table<'_>) -> Result<Read> {
    let position = table.require(&["x", "y", "z"], "a point cloud")?;
    let named = |names: &[&str]| table.require(names, "").ok();
    let colour = COLOURS
        .iter()
        .find_map(|names| named(names))
        .map(|columns| {
            let white = white(table, &columns);
            Colour::Rgb(columns, white)
        })
        .or_else(|| named(&["f_dc_0", "f_dc_1", "f_dc_2"]).map(Colour::Sh0))
        .unwrap_or(Colour::Grey);
    let grey = Point {
        position: [0.0; 3],
        rgb: [128; 3],
    };
    let mut points = vec![grey; table.rows()];
    let any_bad = points
        .par_chunks_mut(BLOCK_ROWS)
        .enumerate()
        .map(|(at, block)| {
            let first = at * BLOCK_ROWS;
            let rows = block.len();
            if let Colour::Rgb(columns, _) | Colour::Sh0(columns) = &colour {
                for (channel, column) in columns.iter().enumerate() {
                    // A non-finite colour becomes 0 or 255 and does not refuse the point.
                    table.gather(column, first, rows, |i, value| {
                        block[i].rgb[channel] = to_byte(&colour, value);
                    });
                }
            }
            let mut bad = false;
            for (axis, column) in position.iter().enumerate() {
                let put = |i: usize, value| block[i].position[axis] = value;
                bad |= table.gather(column, first, rows, put).is_some();
            }
            bad
        })
        .reduce(|| false, |a, b| a | b);
    let rows = points.len();
    if any_bad {
        points.retain(|point| point.position.iter().all(|v| v.is_finite()));
    }
    Ok(Read {
        dropped: rows - points.len(),
        points,
    })
}

/// Returns the value of white: 255 for bytes and 65 535 for larger integers. Floats extend to 1, 255 or 65 535,
/// according to their maximum. Scanners' scripts write bytes as floats.
fn white(table: &Table<'_>, columns: &[&Column]) -> f32 {
    if columns.iter().all(|column| column.declared.size() == 1) {
        return 255.0;
    }
    let blocks = table.rows().div_ceil(BLOCK_ROWS);
    let largest = (0..blocks)
        .into_par_iter()
        .map(|block| {
            let mut largest = 0.0f32;
            for column in columns {
                table.gather(column, block * BLOCK_ROWS, BLOCK_ROWS, |_, value| {
                    if value.is_finite() {
                        largest = largest.max(value);
                    }
                });
            }
            largest
        })
        .reduce(|| 0.0, f32::max);
    let is_float = |column: &&Column| matches!(column.declared, Scalar::F32 | Scalar::F64);
    match largest {
        // A little more than white is an overshoot of a renderer, not a byte.
        ..=UNIT_OVERSHOOT if columns.iter().all(is_float) => 1.0,
        ..=BYTE_OVERSHOOT => 255.0,
        _ => 65_535.0,
    }
}

/// Largest float that counts as a colour of 0 to 1, and as one of 0 to 255.
const UNIT_OVERSHOOT: f32 = 2.0;
const BYTE_OVERSHOOT: f32 = 300.0;

/// Returns the centres of splats, with their colours.
pub(super) fn of_splats(splats: &Splats) -> Vec<Point> {
    let centres = splats.means.iter().zip(&splats.sh0);
    centres
        .map(|(&position, sh0)| Point {
            position,
            rgb: sh0.map(shown),
        })
        .collect()
}

/// Converts coefficient 0 to a byte; `as` saturates, and converts NaN to 0.
fn shown(sh0: f32) -> u8 {
    ((0.5 + SH_C0 * sh0) * 255.0).round() as u8
}

fn to_byte(colour: &Colour<'_>, value: f32) -> u8 {
    match colour {
        Colour::Sh0(_) => shown(value),
        // `as` saturates, and converts NaN to 0.
        Colour::Rgb(_, white) => (value * (255.0 / white)).round() as u8,
        Colour::Grey => 128,
    }
}
