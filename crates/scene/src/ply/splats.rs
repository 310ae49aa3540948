//! From the rows of a PLY file to [`Splats`].

use super::table::{BLOCK_ROWS, Column, NotFinite, Table};
use crate::{Error, MAX_SH_DEGREE, Result, Splats, sh_coefficient_count};
use rayon::prelude::*;

/// What every file of splats has.
const REQUIRED: [&str; 14] = [
    "x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
    "rot_0", "rot_1", "rot_2", "rot_3",
];

/// Columns by what they fill.
struct Columns<'a> {
    means: &'a [&'a Column],
    sh0: &'a [&'a Column],
    opacity: &'a [&'a Column],
    scales: &'a [&'a Column],
    quats: &'a [&'a Column],
    /// `[3, K-1]`, as the file has it.
    sh_rest: &'a [&'a Column],
}

/// The arrays' part for [`BLOCK_ROWS`] Gaussians.
struct Block<'a> {
    first: usize,
    means: &'a mut [[f32; 3]],
    scales: &'a mut [[f32; 3]],
    quats: &'a mut [[f32; 4]],
    opacities: &'a mut [f32],
    sh0: &'a mut [[f32; 3]],
    sh_rest: &'a mut [f32],
}

/// Copies the rows, in parallel, each block by its columns.
pub(super) fn from_table(table: &Table<'_>) -> Result<Splats> {
    let what = "a file of Gaussian splats";
    let sh_degree = sh_degree(table)?;
    let rest: Vec<String> = (0..(sh_coefficient_count(sh_degree) - 1) * 3)
        .map(|i| format!("f_rest_{i}"))
        .collect();
    let names: Vec<&str> = REQUIRED
        .into_iter()
        .chain(rest.iter().map(String::as_str))
        .collect();
    let found = table.require(&names, what)?;
    let columns = Columns {
        means: &found[0..3],
        sh0: &found[3..6],
        opacity: &found[6..7],
        scales: &found[7..10],
        quats: &found[10..14],
        sh_rest: &found[14..],
    };

    // Within a small factor of the file's size, which has been checked.
    let rows = table.rows();
    let mut splats = Splats {
        means: vec![[0.0; 3]; rows],
        scales: vec![[0.0; 3]; rows],
        quats: vec![[0.0; 4]; rows],
        opacities: vec![0.0; rows],
        sh0: vec![[0.0; 3]; rows],
        sh_rest: vec![0.0; rows * columns.sh_rest.len()],
        sh_degree,
    };
    let bad = blocks(&mut splats)
        .into_par_iter()
        .filter_map(|block| fill(table, &columns, block))
        .min_by_key(|(bad, _)| bad.row);
    match bad {
        None => Ok(splats),
        Some((bad, name)) => Err(not_finite(bad, &name)),
    }
}

/// An error that names the value.
pub(super) fn not_finite(bad: NotFinite, name: &str) -> Error {
    Error::input(format!(
        "property {name} of vertex {} is {}, not a finite number",
        bad.row, bad.value
    ))
    .hint(
        "the training that wrote it diverged, or the file is damaged; \
         `npx @playcanvas/splat-transform in.ply --filter-nan out.ply` removes such Gaussians",
    )
}

/// The degree that the number of `f_rest_*` properties stands for.
fn sh_degree(table: &Table<'_>) -> Result<u8> {
    let count = table
        .names()
        .filter(|name| name.starts_with("f_rest_"))
        .count();
    (0..=MAX_SH_DEGREE)
        .find(|&degree| (sh_coefficient_count(degree) - 1) * 3 == count)
        .ok_or_else(|| {
            Error::unsupported(format!(
                "the PLY file has {count} f_rest_* properties, which is no degree of spherical \
                 harmonics that Dapple knows"
            ))
            .hint("degree 0 has none, 1 has 9, 2 has 24, 3 has 45")
        })
}

/// Cuts the arrays into blocks.
fn blocks(splats: &mut Splats) -> Vec<Block<'_>> {
    let (rows, stride) = (splats.len(), splats.sh_rest_stride());
    let mut sh_rest = &mut splats.sh_rest[..];
    let mut first = 0;
    let arrays = splats
        .means
        .chunks_mut(BLOCK_ROWS)
        .zip(splats.scales.chunks_mut(BLOCK_ROWS))
        .zip(splats.quats.chunks_mut(BLOCK_ROWS))
        .zip(splats.opacities.chunks_mut(BLOCK_ROWS))
        .zip(splats.sh0.chunks_mut(BLOCK_ROWS));
    let mut blocks = Vec::with_capacity(rows.div_ceil(BLOCK_ROWS));
    for ((((means, scales), quats), opacities), sh0) in arrays {
        let (here, after) = std::mem::take(&mut sh_rest).split_at_mut(means.len() * stride);
        sh_rest = after;
        let length = means.len();
        blocks.push(Block {
            first,
            means,
            scales,
            quats,
            opacities,
            sh0,
            sh_rest: here,
        });
        first += length;
    }
    blocks
}

/// Fills a block; returns the first value (by row) that is not finite, with its property's name.
fn fill(table: &Table<'_>, columns: &Columns<'_>, block: Block<'_>) -> Option<(NotFinite, String)> {
    let (first, rows) = (block.first, block.means.len());
    let mut worst: Option<(NotFinite, String)> = None;
    let mut gather = |column: &Column, put: &mut dyn FnMut(usize, f32)| {
        if let Some(bad) = table.gather(column, first, rows, put)
            && worst.as_ref().is_none_or(|(known, _)| bad.row < known.row)
        {
            worst = Some((bad, column.name.clone()));
        }
    };
    for (axis, column) in columns.means.iter().enumerate() {
        gather(column, &mut |i, value| block.means[i][axis] = value);
    }
    for (channel, column) in columns.sh0.iter().enumerate() {
        gather(column, &mut |i, value| block.sh0[i][channel] = value);
    }
    let coefficients = columns.sh_rest.len() / 3;
    for (at, column) in columns.sh_rest.iter().enumerate() {
        let (channel, coefficient) = (at / coefficients, at % coefficients);
        let place = coefficient * 3 + channel;
        gather(column, &mut |i, value| {
            block.sh_rest[i * coefficients * 3 + place] = value;
        });
    }
    for column in columns.opacity {
        gather(column, &mut |i, value| block.opacities[i] = value);
    }
    for (axis, column) in columns.scales.iter().enumerate() {
        gather(column, &mut |i, value| block.scales[i][axis] = value);
    }
    for (axis, column) in columns.quats.iter().enumerate() {
        gather(column, &mut |i, value| block.quats[i][axis] = value);
    }
    for quat in block.quats.iter_mut() {
        if *quat == [0.0; 4] {
            *quat = [1.0, 0.0, 0.0, 0.0];
        }
    }
    worst
}
