//! Converts the rows of a PLY file to [`Splats`].
//!
//! 1. Find the columns; some may be missing or have another name.
//! 2. Copy them block by block. Infinities with a meaning become finite numbers.
//! 3. Bake a separate 3D filter (Mip-Splatting) into scales and opacities.
//! 4. Convert opacities and lengths to logits and logarithms if the file holds these (`activated`).
//! 5. On request, subtract a local origin from positions in doubles that are far from the origin ([`crate::origin`]).

use super::activated::{self, Found};
use super::header::Scalar;
use super::table::{BLOCK_ROWS, Column, NotFinite, Table};
use crate::splat_file::watch::Watch;
use crate::splat_file::{NON_FINITE_HINT, ReadOptions, cut_harmonics};
use crate::{Error, MAX_SH_DEGREE, Progress, Result, SH_C0, Splats, sh_coefficient_count};
use glam::DVec3;
use rayon::prelude::*;

/// Columns of every file of splats. `f_dc_*` and `scale_2` are not among them, because they have substitutes.
const POSITION: [&str; 3] = ["x", "y", "z"];
const COLOUR: [&str; 3] = ["f_dc_0", "f_dc_1", "f_dc_2"];
const RGB: [&str; 3] = ["red", "green", "blue"];
const SCALE: [&str; 3] = ["scale_0", "scale_1", "scale_2"];
const ROTATION: [&str; 4] = ["rot_0", "rot_1", "rot_2", "rot_3"];

/// Logit for infinite ones: converters take the logit of an opacity of exactly 0 or 1. It is within 2e-7 of those.
const OPACITY_LIMIT: f32 = 16.0;

/// Logarithm for infinite ones: converters take the logarithm of a scale of 0. It is 2e-9 of the scene's unit, the
/// limit of compressed files.
const LOWEST_SCALE: f32 = -20.0;

/// ln 1000: the ratio between the shorter axis of a 2D Gaussian and its third axis. The disc is very thin, but a matrix
/// of `f32` still has an inverse.
pub(super) const DISC: f32 = 6.907_755_4;

/// Columns by the arrays that they fill.
struct Columns<'a> {
    means: Vec<&'a Column>,
    sh0: Vec<&'a Column>,
    opacity: &'a Column,
    /// Two columns for 2D Gaussians.
    scales: Vec<&'a Column>,
    quats: Vec<&'a Column>,
    /// Columns `[3, K-1]`, in the file's order.
    sh_rest: Vec<&'a Column>,
    /// Standard deviation of a 3D filter that is not yet baked into the scales.
    filter: Option<&'a Column>,
    /// Subtrahend and factor that convert a colour to `f_dc`.
    colour: (f32, f32),
}

impl<'a> Columns<'a> {
    fn find(table: &'a Table<'_>, degrees: Degrees) -> Result<Self> {
        let rest = degrees.rest_names();
        let has = |names: &[&str]| names.iter().all(|name| table.column(name).is_some());
        // Colours do not make a point cloud a splat file: an error then names all missing columns.
        let no_sh0 = has(&["opacity"]) && COLOUR.iter().all(|name| table.column(name).is_none());
        let colour = if no_sh0 && has(&RGB) { RGB } else { COLOUR };
        let flat = has(&SCALE[..2]) && table.column(SCALE[2]).is_none();
        let scales = &SCALE[..if flat { 2 } else { 3 }];
        // All names in one call, so that the error names all missing columns.
        let names: Vec<&str> = (POSITION.iter().chain(&colour))
            .chain(&["opacity"])
            .chain(scales)
            .chain(&ROTATION)
            .copied()
            .chain(rest.iter().map(String::as_str))
            .collect();
        let mut found = table
            .require(&names, "a file of Gaussian splats")?
            .into_iter();
        let mut take = |count: usize| found.by_ref().take(count).collect::<Vec<_>>();
        let (means, sh0) = (take(3), take(3));
        let from_colour = match sh0.first().map(|column| column.declared) {
            _ if colour == COLOUR => (0.0, 1.0),
            Some(Scalar::F32 | Scalar::F64) => (0.5, 1.0 / SH_C0),
            _ => (127.5, 1.0 / (255.0 * SH_C0)),
        };
        Ok(Self {
            means,
            sh0,
            opacity: take(1)[0],
            scales: take(scales.len()),
            quats: take(4),
            sh_rest: take(rest.len()),
            filter: table.column("filter_3D"),
            colour: from_colour,
        })
    }
}

/// Part of the arrays for [`BLOCK_ROWS`] Gaussians.
pub(crate) struct Block<'a> {
    pub(crate) first: usize,
    pub(crate) means: &'a mut [[f32; 3]],
    pub(crate) scales: &'a mut [[f32; 3]],
    pub(crate) quats: &'a mut [[f32; 4]],
    pub(crate) opacities: &'a mut [f32],
    pub(crate) sh0: &'a mut [[f32; 3]],
    pub(crate) sh_rest: &'a mut [f32],
}

/// Copies the rows, in parallel, each block column by column.
pub(super) fn from_table(
    table: &Table<'_>,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Vec<String>)> {
    let degrees = Degrees::find(table)?;
    let columns = Columns::find(table, degrees)?;
    // Within a small factor of the file's size, which has been checked.
    let mut splats = empty(table.rows(), degrees.read);
    let watch = Watch::reading(progress, table.rows());
    let bad = blocks(&mut splats)
        .into_par_iter()
        .filter_map(|block| {
            let rows = block.means.len();
            let bad = fill(table, &columns, block);
            watch.advance(rows);
            bad
        })
        .min_by_key(|(bad, _)| bad.row);
    match bad {
        Some((bad, name)) if !options.keeps_non_finite() => {
            return Err(not_finite(bad, &name, "vertex"));
        }
        _ => {}
    }
    let mut notes: Vec<String> = degrees.note().into_iter().collect();
    // Values widened by a 3D filter are neither opacities nor lengths.
    if columns.filter.is_none() {
        let is_bytes = columns.opacity.declared == Scalar::U8;
        let found = Found::read(&splats, columns.scales.len(), is_bytes);
        notes.extend(activated::undo(&mut splats, found, columns.scales.len()));
    }
    Ok((splats, notes))
}

/// Subtracts a local origin from centres in doubles that are far from zero, and returns it.
pub(super) fn count_from_local_origin(table: &Table<'_>, splats: &mut Splats) -> Result<DVec3> {
    let columns = table.require(&POSITION, "a file of Gaussian splats")?;
    if !columns.iter().any(|column| column.is_wide()) {
        return Ok(DVec3::ZERO);
    }
    let origin = super::doubles::local_origin(table, &columns);
    if origin == DVec3::ZERO {
        return Ok(origin);
    }
    for (axis, column) in columns.iter().enumerate() {
        table.gather_wide(column, 0, table.rows(), |i, value| {
            splats.means[i][axis] = (value - origin[axis]) as f32;
        });
    }
    Ok(origin)
}

/// Allocates splats for a number of Gaussians.
pub(crate) fn empty(rows: usize, sh_degree: u8) -> Splats {
    let mut splats = Splats {
        means: vec![[0.0; 3]; rows],
        scales: vec![[0.0; 3]; rows],
        quats: vec![[0.0; 4]; rows],
        opacities: vec![0.0; rows],
        sh0: vec![[0.0; 3]; rows],
        sh_rest: Vec::new(),
        sh_degree,
    };
    splats.sh_rest = vec![0.0; rows * splats.sh_rest_stride()];
    splats
}

/// Builds an error that names the value.
pub(super) fn not_finite(bad: NotFinite, name: &str, element: &str) -> Error {
    Error::input(format!(
        "property {name} of {element} {} is {}, not a finite number",
        bad.row, bad.value
    ))
    .hint(NON_FINITE_HINT)
}

/// Highest known degree of harmonics; degrees above the supported one are cut.
const HIGHEST_DEGREE: u8 = 10;

/// Degrees of a file's harmonics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Degrees {
    /// Degree that is read, at most [`MAX_SH_DEGREE`].
    pub(super) read: u8,
    /// Degree in the file.
    stored: u8,
}

impl Degrees {
    /// No harmonics.
    pub(super) const NONE: Self = Self { read: 0, stored: 0 };

    /// Returns the degree for the number of `f_rest_*` properties.
    pub(super) fn find(table: &Table<'_>) -> Result<Self> {
        let names = table.names().filter(|name| name.starts_with("f_rest_"));
        let count = names.count();
        let known = (0..=HIGHEST_DEGREE)
            .find(|&degree| (sh_coefficient_count(degree) - 1) * 3 == count)
            .ok_or_else(|| {
                Error::unsupported(format!(
                    "the PLY file has {count} f_rest_* properties, which is no degree of spherical \
                     harmonics that Dapple knows"
                ))
                .hint("degree 0 has none, 1 has 9, 2 has 24, 3 has 45, 4 has 72")
            })?;
        Ok(Self {
            read: known.min(MAX_SH_DEGREE),
            stored: known,
        })
    }

    /// Returns the names of the properties that are read, `[3, K-1]`.
    pub(super) fn rest_names(self) -> Vec<String> {
        let [read, stored] = [self.read, self.stored].map(|d| sh_coefficient_count(d) - 1);
        (0..3 * read)
            .map(|at| format!("f_rest_{}", at / read * stored + at % read))
            .collect()
    }

    /// Returns a note on dropped harmonics.
    pub(super) fn note(self) -> Option<String> {
        (self.stored > self.read).then(|| cut_harmonics(self.stored))
    }
}

/// Cuts the arrays into blocks.
pub(crate) fn blocks(splats: &mut Splats) -> Vec<Block<'_>> {
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

/// Fills a block; returns the first non-finite value (by row), with its property's name.
fn fill(table: &Table<'_>, columns: &Columns<'_>, block: Block<'_>) -> Option<(NotFinite, String)> {
    let (first, rows) = (block.first, block.means.len());
    let mut worst: Option<(NotFinite, String)> = None;
    let mut gather = |column: &Column, put: &mut dyn FnMut(usize, f32), means: fn(f32) -> f32| {
        let put = |i, value: f32| {
            put(
                i,
                if value.is_finite() {
                    value
                } else {
                    means(value)
                },
            )
        };
        let refused = |value: f32| !means(value).is_finite();
        if let Some(bad) = table.gather_unless(column, first, rows, put, refused)
            && worst.as_ref().is_none_or(|(known, _)| bad.row < known.row)
        {
            worst = Some((bad, column.name.clone()));
        }
    };
    for (axis, column) in columns.means.iter().enumerate() {
        gather(column, &mut |i, value| block.means[i][axis] = value, same);
    }
    let (less, times) = columns.colour;
    for (channel, column) in columns.sh0.iter().enumerate() {
        let mut put = |i: usize, value: f32| block.sh0[i][channel] = (value - less) * times;
        gather(column, &mut put, same);
    }
    let coefficients = columns.sh_rest.len() / 3;
    for (at, column) in columns.sh_rest.iter().enumerate() {
        let (channel, coefficient) = (at / coefficients, at % coefficients);
        let place = coefficient * 3 + channel;
        let mut put = |i: usize, value| block.sh_rest[i * coefficients * 3 + place] = value;
        gather(column, &mut put, same);
    }
    let mut put = |i: usize, value| block.opacities[i] = value;
    gather(columns.opacity, &mut put, opacity);
    for (axis, column) in columns.scales.iter().enumerate() {
        let mut put = |i: usize, value| block.scales[i][axis] = value;
        gather(column, &mut put, scale);
    }
    if columns.scales.len() == 2 {
        for [first, second, third] in block.scales.iter_mut() {
            *third = first.min(*second) - DISC;
        }
    }
    for (axis, column) in columns.quats.iter().enumerate() {
        gather(column, &mut |i, value| block.quats[i][axis] = value, same);
    }
    for quat in block.quats.iter_mut() {
        if *quat == [0.0; 4] {
            *quat = [1.0, 0.0, 0.0, 0.0];
        }
    }
    if let Some(column) = columns.filter {
        let mut put = |i: usize, value: f32| match value.is_finite() {
            true => bake_filter_3d(value, &mut block.scales[i], &mut block.opacities[i]),
            // With `keep`, the Gaussian is marked as non-finite.
            false => block.opacities[i] = f32::NAN,
        };
        gather(column, &mut put, same);
    }
    worst
}

/// Infinities have no meaning in most columns: the value is unchanged.
fn same(value: f32) -> f32 {
    value
}

/// Replaces infinities in the logit of an opacity.
fn opacity(value: f32) -> f32 {
    if value.is_infinite() {
        OPACITY_LIMIT.copysign(value)
    } else {
        value
    }
}

/// Replaces infinities in the logarithm of a scale.
fn scale(value: f32) -> f32 {
    if value == f32::NEG_INFINITY {
        LOWEST_SCALE
    } else {
        value
    }
}

/// Widens a Gaussian by a 3D filter of standard deviation `filter`, and reduces its opacity so that its mass is
/// unchanged: eq. 7 of Mip-Splatting (Yu et al. 2024). In logarithms, so that nothing overflows.
fn bake_filter_3d(filter: f32, scales: &mut [f32; 3], opacity: &mut f32) {
    if !(filter > 0.0 && filter.is_finite()) {
        return;
    }
    let filter = 2.0 * f64::from(filter).ln();
    let mut thinner = 0.0;
    for scale in scales {
        let before = 2.0 * f64::from(*scale);
        // ln(s^2 + f^2), from the larger of the two.
        let (large, small) = (before.max(filter), before.min(filter));
        let after = large + (small - large).exp().ln_1p();
        thinner += 0.5 * (before - after);
        *scale = (0.5 * after) as f32;
    }
    // The logit of alpha * exp(thinner), with 1 - alpha written so that it does not cancel.
    let logit = f64::from(*opacity);
    let ln_alpha = -(-logit).exp().ln_1p() + thinner;
    if ln_alpha < -f64::from(OPACITY_LIMIT) || !ln_alpha.is_finite() {
        *opacity = -OPACITY_LIMIT;
    } else if thinner < 0.0 {
        *opacity = (ln_alpha - (-ln_alpha.exp_m1()).ln()) as f32;
    }
}
