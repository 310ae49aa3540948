//! From the rows of a PLY file to plain coloured points.

use super::header::Scalar;
use super::splats::not_finite;
use super::table::{BLOCK_ROWS, Column, Table};
use crate::{Point, Result, SH_C0, Splats};
use rayon::prelude::*;

/// Where a colour comes from.
enum Colour<'a> {
    /// `red green blue`; floats run from 0 to 1, integers from 0 to 255.
    Rgb(Vec<&'a Column>),
    /// Coefficient 0 of spherical harmonics: a file of splats.
    Sh0(Vec<&'a Column>),
    /// None in the file.
    Grey,
}

/// Copies positions and colours, in parallel.
pub(super) fn from_table(table: &Table<'_>) -> Result<Vec<Point>> {
    let position = table.require(&["x", "y", "z"], "a point cloud")?;
    let named = |names: &[&str]| table.require(names, "").ok();
    let colour = named(&["red", "green", "blue"])
        .map(Colour::Rgb)
        .or_else(|| named(&["f_dc_0", "f_dc_1", "f_dc_2"]).map(Colour::Sh0))
        .unwrap_or(Colour::Grey);
    let grey = Point {
        position: [0.0; 3],
        rgb: [128; 3],
    };
    let mut points = vec![grey; table.rows()];
    let bad = points
        .par_chunks_mut(BLOCK_ROWS)
        .enumerate()
        .filter_map(|(at, block)| {
            let first = at * BLOCK_ROWS;
            let rows = block.len();
            if let Colour::Rgb(columns) | Colour::Sh0(columns) = &colour {
                for (channel, column) in columns.iter().enumerate() {
                    // A colour that is not finite becomes 0 or 255: no reason to refuse a point.
                    table.gather(column, first, rows, |i, value| {
                        block[i].rgb[channel] = to_byte(&colour, column, value);
                    });
                }
            }
            let bads = position.iter().enumerate().filter_map(|(axis, column)| {
                let put = |i: usize, value| block[i].position[axis] = value;
                table
                    .gather(column, first, rows, put)
                    .map(|bad| (bad, column.name.clone()))
            });
            bads.min_by_key(|(bad, _)| bad.row)
        })
        .min_by_key(|(bad, _)| bad.row);
    match bad {
        None => Ok(points),
        Some((bad, name)) => Err(not_finite(bad, &name, "vertex")),
    }
}

/// The centres of splats, with their colours.
pub(super) fn of_splats(splats: &Splats) -> Vec<Point> {
    let centres = splats.means.iter().zip(&splats.sh0);
    centres
        .map(|(&position, sh0)| Point {
            position,
            rgb: sh0.map(shown),
        })
        .collect()
}

/// Coefficient 0 as a byte; `as` saturates, and makes 0 of NaN.
fn shown(sh0: f32) -> u8 {
    ((0.5 + SH_C0 * sh0) * 255.0).round() as u8
}

fn to_byte(colour: &Colour<'_>, column: &Column, value: f32) -> u8 {
    match (colour, column.declared) {
        (Colour::Sh0(_), _) => shown(value),
        (_, Scalar::F32 | Scalar::F64) => (value * 255.0).round() as u8,
        _ => value as u8,
    }
}
