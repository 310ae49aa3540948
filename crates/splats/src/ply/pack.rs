//! Writer of the compressed PLY; `compressed` describes the layout.
//!
//! 1. Gaussians are sorted along a Morton curve, shell by shell around the middle, so that the 256 of a chunk are close
//!    together and its ranges narrow. A distant Gaussian would reduce the precision of all others of its chunk.
//! 2. A chunk's ranges: centres, ln of scales within -20 to 20, colours without view dependence.
//! 3. Words and bytes are rounded to the nearest step.

use super::compressed::{CHUNK, CHUNK_COLUMNS, COLOUR_COLUMNS, PACKED};
use crate::order::order_by_shells;
use crate::splat_file::{WriteOptions, alpha, largest, unit};
use crate::{SH_C0, Splats};
use rayon::prelude::*;
use std::f32::consts::FRAC_1_SQRT_2;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Limit of logarithmic scales.
const SCALE_LIMIT: f32 = 20.0;

/// Minimum and maximum of each axis.
type Range = [[f32; 3]; 2];

/// Encoded chunk.
struct Packed {
    ranges: [Range; 3],
    words: Vec<[u32; 4]>,
    rest: Vec<u8>,
}

pub(crate) fn write_compressed_to(
    out: &mut dyn Write,
    splats: &Splats,
    options: &WriteOptions,
) -> io::Result<()> {
    let order = order_by_shells(&splats.means);
    let chunks: Vec<Packed> = order
        .par_chunks(CHUNK)
        .map(|rows| pack(splats, rows))
        .collect();
    out.write_all(header(splats, chunks.len(), options).as_bytes())?;
    for chunk in &chunks {
        for value in chunk.ranges.as_flattened().as_flattened() {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    for chunk in &chunks {
        let words: Vec<u8> = chunk
            .words
            .as_flattened()
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        out.write_all(&words)?;
    }
    chunks
        .iter()
        .try_for_each(|chunk| out.write_all(&chunk.rest))
}

fn header(splats: &Splats, chunks: usize, options: &WriteOptions) -> String {
    let mut text = "ply\nformat binary_little_endian 1.0\n".to_owned();
    text.push_str(&super::write::comments(options));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "element chunk {chunks}");
    for name in CHUNK_COLUMNS.iter().chain(&COLOUR_COLUMNS) {
        let _ = writeln!(text, "property float {name}");
    }
    let _ = writeln!(text, "element vertex {}", splats.len());
    for name in PACKED {
        let _ = writeln!(text, "property uint {name}");
    }
    if splats.sh_rest_stride() > 0 {
        let _ = writeln!(text, "element sh {}", splats.len());
        for k in 0..splats.sh_rest_stride() {
            let _ = writeln!(text, "property uchar f_rest_{k}");
        }
    }
    text.push_str("end_header\n");
    text
}

fn pack(splats: &Splats, rows: &[usize]) -> Packed {
    let mean = |i: usize| splats.means[i];
    let scale = |i: usize| splats.scales[i].map(|s| s.clamp(-SCALE_LIMIT, SCALE_LIMIT));
    let colour = |i: usize| splats.sh0[i].map(|c| 0.5 + SH_C0 * c);
    let ranges = [range(rows, mean), range(rows, scale), range(rows, colour)];
    let words = rows.iter().map(|&i| {
        let [r, g, b] = shares(colour(i), &ranges[2]).map(|s| unorm(s, 8));
        [
            pack_11_10_11(shares(mean(i), &ranges[0])),
            pack_rotation(splats.quats[i]),
            pack_11_10_11(shares(scale(i), &ranges[1])),
            r << 24 | g << 16 | b << 8 | unorm(alpha(splats.opacities[i]), 8),
        ]
    });
    let stride = splats.sh_rest_stride();
    let coefficients = stride / 3;
    let rest = rows.iter().flat_map(|&i| {
        let values = &splats.sh_rest[i * stride..][..stride];
        // The file stores channel by channel.
        (0..stride).map(move |at| {
            let value = values[at % coefficients * 3 + at / coefficients];
            // `as` saturates, and truncates: readers use a step's middle.
            ((value / 8.0 + 0.5) * 256.0) as u8
        })
    });
    Packed {
        ranges,
        words: words.collect(),
        rest: rest.collect(),
    }
}

fn range(rows: &[usize], values: impl Fn(usize) -> [f32; 3]) -> Range {
    let start = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
    rows.iter().fold(start, |[low, high], &i| {
        let value = values(i);
        [0, 1].map(|end| {
            [0, 1, 2].map(|k| {
                if end == 0 {
                    low[k].min(value[k])
                } else {
                    high[k].max(value[k])
                }
            })
        })
    })
}

/// Returns the positions of values within their range, 0 to 1.
fn shares(values: [f32; 3], [low, high]: &Range) -> [f32; 3] {
    [0, 1, 2].map(|k| match high[k] > low[k] {
        true => (values[k] - low[k]) / (high[k] - low[k]),
        false => 0.0,
    })
}

/// Rounds to the nearest of 2^bits steps.
fn unorm(share: f32, bits: u32) -> u32 {
    let most = (1u32 << bits) - 1;
    // `as` saturates.
    ((share * most as f32 + 0.5) as u32).min(most)
}

fn pack_11_10_11([x, y, z]: [f32; 3]) -> u32 {
    unorm(x, 11) << 21 | unorm(y, 10) << 11 | unorm(z, 11)
}

fn pack_rotation(quat: [f32; 4]) -> u32 {
    let quat = unit(quat);
    let largest = largest(&quat);
    let sign = if quat[largest] < 0.0 { -1.0 } else { 1.0 };
    (0..4)
        .filter(|&k| k != largest)
        .fold(largest as u32, |word, k| {
            // From -1/sqrt 2 to 1/sqrt 2.
            word << 10 | unorm(quat[k] * sign * FRAC_1_SQRT_2 + 0.5, 10)
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn far_ones_take_no_precision_from_the_near() {
        let mut splats = Splats::empty(0);
        let mut push = |mean| {
            splats.means.push(mean);
            splats.scales.push([-3.0; 3]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(1.0);
            splats.sh0.push([0.0; 3]);
        };
        // Two chunks of central Gaussians, and distant ones that a curve through all would sort among them.
        for far in [[-5000.0, 0.0, 0.0], [0.0, 4000.0, 1.0], [9.0, 3.0, -7000.0]] {
            push(far);
        }
        for i in 0..2 * CHUNK {
            push([i % 8, i / 8 % 8, i / 64].map(|v| v as f32 / 4.0 - 1.0));
        }
        let mut file = Vec::new();
        write_compressed_to(&mut file, &splats, &WriteOptions::default()).unwrap();
        let back = crate::ply::parse(&file).unwrap();
        let near = |means: &[[f32; 3]]| {
            let mut near: Vec<[f32; 3]> = means
                .iter()
                .copied()
                .filter(|mean| mean.iter().all(|v| v.abs() < 50.0))
                .collect();
            // By the cells of their grid.
            near.sort_by_key(|mean| mean.map(|v| (v * 4.0).round() as i32));
            near
        };
        let (before, after) = (near(&splats.means), near(&back.means));
        assert_eq!((before.len(), after.len()), (2 * CHUNK, 2 * CHUNK));
        for (a, b) in before.iter().zip(&after) {
            assert!((0..3).all(|k| (a[k] - b[k]).abs() < 2e-3), "{a:?} {b:?}");
        }
    }
}
