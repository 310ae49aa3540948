//! Writes splats to a file of version 3 or 4.

use super::attributes::encode as attributes;
use super::{ANTIALIASED, AXES_RECORD, HEADER, MAGIC, gzip};
use crate::origin::middle_of;
use crate::splat_file::watch::Watch;
use crate::splat_file::{SpzVersion, WriteOptions};
use crate::{Error, Progress, Result, Splats};
use rayon::prelude::*;
use std::borrow::Cow;

/// Level of Zstandard, equal to the format's own writer: 3 makes files 1 to 3 % larger.
const LEVEL: i32 = 12;

/// Bits after the binary point if the scene does not require another number: the value of other writers.
const USUAL_BITS: u8 = 12;

/// Size in bytes from which packing reports progress.
const TOLD_BYTES: usize = 32 << 20;

/// Levels of deflate, by attribute. Harmonics repeat, so a search is worthwhile. The others have almost no repeats. At
/// the lowest levels, which take a third of the time, their files are as small (positions within half a percent) or
/// smaller.
const EFFORTS: [u32; 6] = [2, 1, 2, 1, 1, 6];

/// Above this size, harmonics use a faster search for repeats: half of the time, and 2 % more of the file.
const MANY_HARMONICS: usize = 32 << 20;
const FEWER_EFFORT: u32 = 5;

/// A step is at most this share of the scene's extent: the usual bits for a scene of 4 units.
const STEPS_OF_EXTENT: f32 = 16_384.0;

pub(in crate::splat_file) fn encode(
    splats: &Splats,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Vec<u8>> {
    let bits = fractional_bits(splats)?;
    let splats = &*drawn_in(splats, bits);
    let count = u32::try_from(splats.len()).map_err(|_| {
        Error::unsupported("an SPZ file holds no more than 4 294 967 295 Gaussians")
    })?;
    let planes = attributes(splats, bits, options.spz_sh_bits, &options.axes.signs());
    let flags = if options.antialiased { ANTIALIASED } else { 0 };
    let mut head = MAGIC.to_vec();
    head.extend(options.spz_version.number().to_le_bytes());
    head.extend(count.to_le_bytes());
    head.extend([splats.sh_degree, bits, flags]);
    match options.spz_version {
        SpzVersion::V3 => {
            head.push(0);
            let mut efforts = EFFORTS;
            if planes[5].len() > MANY_HARMONICS {
                efforts[5] = FEWER_EFFORT;
            }
            let mut parts = vec![(&head[..], 1)];
            parts.extend(planes.iter().map(Vec::as_slice).zip(efforts));
            gzip::pack(&parts, &watch(progress, &planes))
        }
        SpzVersion::V4 => {
            head[14] |= super::EXTENSIONS;
            streams(head, &planes, options, &watch(progress, &planes))
        }
    }
}

/// Starts a report of progress in bytes of attributes.
fn watch<'a>(progress: &'a dyn Progress, planes: &[Vec<u8>; 6]) -> Watch<'a> {
    let bytes = planes.iter().map(Vec::len).sum();
    Watch::start(progress, "packing splats", bytes, TOLD_BYTES)
}

/// Builds the header, the record of the axes, the table, and a Zstandard frame for each attribute that is not empty.
fn streams(
    mut head: Vec<u8>,
    planes: &[Vec<u8>; 6],
    options: &WriteOptions,
    watch: &Watch<'_>,
) -> Result<Vec<u8>> {
    let frames: Vec<(usize, Vec<u8>)> = planes
        .par_iter()
        .filter(|plane| !plane.is_empty())
        .map(|plane| {
            watch.check()?;
            let frame = zstd::bulk::compress(plane, LEVEL)
                .map_err(|e| Error::internal("an attribute cannot be packed").caused_by(e))?;
            watch.advance(plane.len());
            Ok((plane.len(), frame))
        })
        .collect::<Result<_>>()?;
    let mut record = Vec::new();
    for word in [AXES_RECORD, 4, options.axes.number()] {
        record.extend(word.to_le_bytes());
    }
    head.push(frames.len() as u8);
    head.extend(((HEADER + record.len()) as u32).to_le_bytes());
    head.resize(HEADER, 0);
    head.extend(record);
    for (unpacked, frame) in &frames {
        head.extend((frame.len() as u64).to_le_bytes());
        head.extend((*unpacked as u64).to_le_bytes());
    }
    for (_, frame) in &frames {
        head.extend_from_slice(frame);
    }
    Ok(head)
}

/// Largest position, in steps.
const MOST_STEPS: f32 = ((1 << 23) - 1) as f32;

/// Returns the largest number of bits after the binary point with which positions reach a distance; `None` if none do.
fn most_bits(distance: f32) -> Option<u8> {
    let reaches = |bits: u8| distance * f32::from(bits).exp2() < MOST_STEPS;
    (0..=23).rev().find(|&bits| reaches(bits))
}

/// Returns the bits of 24 after the binary point: the usual ones; more if the scene is small, so that a step is small
/// compared with it; fewer if distant Gaussians need it. They cost at most what the middle half of the scene can spare:
/// those that are farther out are moved ([`drawn_in`]).
fn fractional_bits(splats: &Splats) -> Result<u8> {
    let far = splats.means.as_flattened().iter().enumerate();
    let (at, farthest) = far.fold((0, 0.0f32), |(at, most), (i, v)| match v.abs() > most {
        true => (i / 3, v.abs()),
        false => (at, most),
    });
    let (mut extent, mut middle_half, mut usual) = (f32::MIN_POSITIVE, f32::MIN_POSITIVE, 0.0f32);
    for axis in 0..3 {
        let mut at: Vec<f32> = splats.means.iter().map(|m| m[axis]).collect();
        let last = at.len() - 1;
        let rank = |share: f32| share * last as f32;
        let ranks = [
            rank(0.01),
            rank(0.25),
            rank(0.75),
            rank(0.99),
            rank(0.99).ceil(),
        ];
        let [low, first, third, high, above] =
            ranks.map(|rank| *at.select_nth_unstable_by(rank as usize, f32::total_cmp).1);
        // A few distant Gaussians do not enlarge the scene. All of a hundred are reached.
        extent = extent.max(high - low);
        middle_half = middle_half.max(third - first);
        usual = usual.max(low.abs()).max(above.abs());
    }
    let Some(inner) = most_bits(usual) else {
        return Err(Error::unsupported(format!(
            "a Gaussian is {farthest:e} units from the origin: SPZ, which pages hold too, reaches 8 388 607"
        ))
        .at(format!("Gaussian {at}"))
        .hint("remove distant Gaussians (`dapple edit IN OUT --crop sphere:0,0,0,1000000`), or write another format"));
    };
    let fine = |extent: f32| (STEPS_OF_EXTENT / extent).log2().ceil().clamp(0.0, 23.0) as u8;
    let most = most_bits(farthest).unwrap_or(0);
    Ok(fine(extent)
        .max(USUAL_BITS)
        .min(most.max(fine(middle_half).min(inner))))
}

/// Moves Gaussians beyond the reach of the positions towards the middle of the scene until they are in it, with sizes in
/// proportion. From the middle they look the same there: they are hundreds of times as far as the scene is large.
fn drawn_in(splats: &Splats, bits: u8) -> Cow<'_, Splats> {
    let most = f64::from(MOST_STEPS * (-f32::from(bits)).exp2());
    let is_beyond = |mean: &[f32; 3]| mean.iter().any(|v| f64::from(v.abs()) > most);
    let beyond: Vec<usize> = (0..splats.len())
        .filter(|&i| is_beyond(&splats.means[i]))
        .collect();
    if beyond.is_empty() {
        return Cow::Borrowed(splats);
    }
    let middle = middle_of(splats).to_array();
    let mut moved = splats.clone();
    for i in beyond {
        let mean = splats.means[i].map(f64::from);
        let share = |k: usize| {
            let by = mean[k] - middle[k];
            (most * by.signum() - middle[k]) / by
        };
        let shares = (0..3).map(share).filter(|share| share.is_finite());
        let share = shares.fold(1.0, f64::min);
        moved.means[i] = [0, 1, 2].map(|k| (middle[k] + (mean[k] - middle[k]) * share) as f32);
        moved.scales[i] = splats.scales[i].map(|scale| scale + share.ln() as f32);
    }
    Cow::Owned(moved)
}
