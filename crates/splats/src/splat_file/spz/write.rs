//! Writes splats to a file of version 3 or 4.

use super::attributes::encode as attributes;
use super::{ANTIALIASED, AXES_RECORD, HEADER, MAGIC, gzip};
use crate::splat_file::watch::Watch;
use crate::splat_file::{SpzVersion, WriteOptions};
use crate::{Error, Progress, Result, Splats};
use rayon::prelude::*;

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

/// Returns the bits of 24 after the binary point: the usual ones; more if the scene is small, so that a step is small
/// compared with it; fewer if the farthest Gaussian requires it.
fn fractional_bits(splats: &Splats) -> Result<u8> {
    let far = splats.means.as_flattened().iter().enumerate();
    let (at, farthest) = far.fold((0, 0.0f32), |(at, most), (i, v)| match v.abs() > most {
        true => (i / 3, v.abs()),
        false => (at, most),
    });
    // The largest number of bits for which 2^23 steps cover the distance.
    let reach = |bits: u8| farthest * f32::from(bits).exp2() < ((1 << 23) - 1) as f32;
    let Some(most) = (0..=23).rev().find(|&bits| reach(bits)) else {
        return Err(Error::unsupported(format!(
            "a Gaussian is {farthest:e} units from the origin: SPZ, which pages hold too, reaches 8 388 607"
        ))
        .at(format!("Gaussian {at}"))
        .hint("remove distant Gaussians (`dapple edit IN OUT --crop sphere:0,0,0,1000000`), or write another format"));
    };
    // Nearly all of the scene: a few distant Gaussians do not enlarge it.
    let extent = (0..3).map(|axis| {
        let mut at: Vec<f32> = splats.means.iter().map(|m| m[axis]).collect();
        let last = at.len() - 1;
        let mut rank = |share: f32| {
            *at.select_nth_unstable_by((share * last as f32) as usize, f32::total_cmp)
                .1
        };
        rank(0.99) - rank(0.01)
    });
    let extent = extent.fold(f32::MIN_POSITIVE, f32::max);
    let fine = (STEPS_OF_EXTENT / extent).log2().ceil().clamp(0.0, 23.0) as u8;
    Ok(fine.max(USUAL_BITS).min(most))
}
