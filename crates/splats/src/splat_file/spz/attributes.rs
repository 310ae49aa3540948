//! Conversion between a Gaussian's numbers and SPZ's bytes.

use super::Header;
use crate::ply::{Block, blocks, empty};
use crate::splat_file::axes::Signs;
use crate::splat_file::packed::{alpha, complete, largest, logit, unit};
use crate::{MAX_SH_DEGREE, Splats};
use rayon::prelude::*;
use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Fraction of 255 that a unit of `f_dc` becomes.
const COLOUR_SCALE: f32 = 0.15;

/// Largest magnitude of a rotation's smaller component, 9 bits.
const ROTATION_STEPS: f32 = 511.0;

/// A file's attributes.
pub(super) type Planes<'a> = [&'a [u8]; 6];

/// Decodes planes of the sizes in the header.
pub(super) fn decode(header: &Header, planes: &Planes<'_>, signs: &Signs) -> Splats {
    let degree = header.degree.min(MAX_SH_DEGREE);
    let mut splats = empty(header.count, degree);
    blocks(&mut splats)
        .into_par_iter()
        .for_each(|block| decode_block(header, planes, signs, block));
    splats
}

fn decode_block(header: &Header, planes: &Planes<'_>, signs: &Signs, block: Block<'_>) {
    let [position, _, _, _, rotation, rest_bytes] = header.strides();
    let unit_of = (-f32::from(header.fractional_bits)).exp2();
    let rest = block.sh_rest.len() / block.means.len().max(1);
    for i in 0..block.means.len() {
        let at = block.first + i;
        let bytes = &planes[0][at * position..][..position];
        let mean = match header.version {
            1 => [0, 2, 4]
                .map(|k| finite(half::f16::from_le_bytes([bytes[k], bytes[k + 1]]).to_f32())),
            // The sign is that of the third byte.
            _ => [0, 3, 6].map(|k| {
                let word = i32::from_le_bytes([0, bytes[k], bytes[k + 1], bytes[k + 2]]);
                (word >> 8) as f32 * unit_of
            }),
        };
        block.means[i] = times(mean, signs.mean);
        block.opacities[i] = logit(f32::from(planes[1][at]) / 255.0);
        for k in 0..3 {
            block.sh0[i][k] = (f32::from(planes[2][3 * at + k]) / 255.0 - 0.5) / COLOUR_SCALE;
            block.scales[i][k] = f32::from(planes[3][3 * at + k]) / 16.0 - 10.0;
        }
        let bytes = &planes[4][at * rotation..][..rotation];
        let [x, y, z, w] = match *bytes {
            [a, b, c, d] => smallest_three(u32::from_le_bytes([a, b, c, d])),
            [a, b, c] => {
                let [x, y, z] = [a, b, c].map(|q| f32::from(q) / 127.5 - 1.0);
                [x, y, z, (1.0 - (x * x + y * y + z * z)).max(0.0).sqrt()]
            }
            _ => [0.0, 0.0, 0.0, 1.0],
        };
        let [x, y, z] = times([x, y, z], signs.quat);
        block.quats[i] = [w, x, y, z];
        let bytes = &planes[5][at * rest_bytes..][..rest];
        let values = &mut block.sh_rest[i * rest..][..rest];
        for (k, (value, &byte)) in values.iter_mut().zip(bytes).enumerate() {
            *value = (f32::from(byte) - 128.0) / 128.0 * signs.sh[k / 3];
        }
    }
}

fn finite(value: f32) -> f32 {
    match value.is_finite() {
        true => value,
        false => 0.0,
    }
}

fn times(values: [f32; 3], signs: [f32; 3]) -> [f32; 3] {
    [0, 1, 2].map(|k| values[k] * signs[k])
}

/// Decodes `[x, y, z, w]` from the largest's index in the top two bits and sign and magnitude of the others, the last
/// of them lowest.
fn smallest_three(mut word: u32) -> [f32; 4] {
    let largest = (word >> 30) as usize;
    let mut quat = [0.0; 4];
    for at in (0..4).rev().filter(|&at| at != largest) {
        let magnitude = FRAC_1_SQRT_2 * (word & 0x1ff) as f32 / ROTATION_STEPS;
        quat[at] = if word & 0x200 == 0 {
            magnitude
        } else {
            -magnitude
        };
        word >>= 10;
    }
    complete(&mut quat, largest);
    quat
}

fn pack_smallest_three(quat: [f32; 4]) -> u32 {
    let [w, x, y, z] = unit(quat);
    let quat = [x, y, z, w];
    let largest = largest(&quat);
    let turned = quat[largest] < 0.0;
    let mut word = largest as u32;
    for (at, &component) in quat.iter().enumerate() {
        if at != largest {
            let magnitude = (ROTATION_STEPS * component.abs() * SQRT_2 + 0.5) as u32;
            let sign = u32::from((component < 0.0) != turned);
            word = word << 10 | sign << 9 | magnitude.min(0x1ff);
        }
    }
    word
}

/// Encodes a coefficient as a byte, at the middle of a step of `8 - bits` bits.
fn pack_harmonic(value: f32, bits: u32) -> u8 {
    let step = 1 << (8 - bits);
    // `as` saturates, and converts NaN to 0.
    let fine = (value * 128.0).round() as i32;
    let fine = fine.clamp(-1 << 20, 1 << 20) + 128;
    ((fine + step / 2).div_euclid(step) * step).clamp(0, 255) as u8
}

/// Mean bits of harmonics of degree 1, and of the others, over all Gaussians.
const USUAL_SH_BITS: [f32; 2] = [4.4, 3.4];

/// Additional bits for each doubling of a Gaussian's screen coverage. Half a bit would be optimal if all Gaussians had
/// one distance, because an image's squared error is the coverage of each times its step squared. With this value the
/// loss at a fixed size was least.
const BITS_A_DOUBLING: f32 = 0.35;

/// Bits of the harmonics per Gaussian.
enum HarmonicBits {
    Same([u32; 2]),
    /// Per Gaussian, in addition to [`USUAL_SH_BITS`].
    ByCover(Vec<f32>),
}

impl HarmonicBits {
    /// Returns the requested bits; else bits by the screen coverage of each Gaussian.
    fn from_splats(splats: &Splats, asked: Option<[u8; 2]>) -> Self {
        if let Some(bits) = asked {
            return Self::Same(bits.map(|b| b.clamp(1, 8).into()));
        }
        let doublings = |i: usize| splats.coverage(i).log2();
        let mut more: Vec<f32> = (0..splats.len()).into_par_iter().map(doublings).collect();
        // In a fixed order: the sum is the same on any number of threads.
        let (sum, count) = (more.iter().filter(|m| m.is_finite()))
            .fold((0.0f64, 0usize), |(sum, n), &m| (sum + f64::from(m), n + 1));
        let mean = (sum / count.max(1) as f64) as f32;
        more.iter_mut()
            .for_each(|m| *m = BITS_A_DOUBLING * (*m - mean));
        Self::ByCover(more)
    }

    fn at(&self, i: usize) -> [u32; 2] {
        match self {
            Self::Same(bits) => *bits,
            // `as` saturates, and converts NaN to 0.
            Self::ByCover(more) => {
                USUAL_SH_BITS.map(|usual| ((usual + more[i]).round() as u32).clamp(1, 8))
            }
        }
    }
}

/// Encodes the attributes; `signs` convert a Gaussian from Dapple's axes to the file's.
pub(super) fn encode(
    splats: &Splats,
    fractional_bits: u8,
    sh_bits: Option<[u8; 2]>,
    signs: &Signs,
) -> [Vec<u8>; 6] {
    let count = splats.len();
    let plane = |stride: usize, put: &(dyn Fn(usize, &mut [u8]) + Sync)| {
        let mut bytes = vec![0u8; stride * count];
        if stride > 0 {
            let rows = bytes.par_chunks_exact_mut(stride).enumerate();
            rows.with_min_len(4096).for_each(|(i, row)| put(i, row));
        }
        bytes
    };
    let steps = f64::from(fractional_bits).exp2();
    let most = f64::from((1 << 23) - 1);
    let positions = plane(9, &|i, row| {
        for k in 0..3 {
            let value = f64::from(splats.means[i][k] * signs.mean[k]) * steps;
            let word = value.round().clamp(-most - 1.0, most) as i32;
            row[3 * k..3 * k + 3].copy_from_slice(&word.to_le_bytes()[..3]);
        }
    });
    let byte = |value: f32| value.round() as u8;
    let opacities = plane(1, &|i, row| {
        row[0] = byte(255.0 * alpha(splats.opacities[i]))
    });
    let colours = plane(3, &|i, row| {
        for (to, &from) in row.iter_mut().zip(&splats.sh0[i]) {
            *to = byte(from * (COLOUR_SCALE * 255.0) + 127.5);
        }
    });
    let scales = plane(3, &|i, row| {
        for (to, &from) in row.iter_mut().zip(&splats.scales[i]) {
            *to = byte((from + 10.0) * 16.0);
        }
    });
    let rotations = plane(4, &|i, row| {
        let [w, x, y, z] = splats.quats[i];
        let [x, y, z] = times([x, y, z], signs.quat);
        row.copy_from_slice(&pack_smallest_three([w, x, y, z]).to_le_bytes());
    });
    let rest = splats.sh_rest_stride();
    let bits = HarmonicBits::from_splats(splats, sh_bits);
    let harmonics = plane(rest, &|i, row| {
        let values = &splats.sh_rest[i * rest..][..rest];
        let bits = bits.at(i);
        for (k, (to, &from)) in row.iter_mut().zip(values).enumerate() {
            *to = pack_harmonic(from * signs.sh[k / 3], bits[usize::from(k >= 9)]);
        }
    });
    [positions, opacities, colours, scales, rotations, harmonics]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_come_back_within_a_step_whatever_is_largest() {
        for largest in 0..4 {
            for sign in [1.0f32, -1.0] {
                let mut quat = [0.3, -0.2, 0.1, 0.25];
                quat[largest] = 0.8 * sign;
                let quat = unit(quat);
                let [x, y, z, w] = smallest_three(pack_smallest_three(quat));
                let found = [w, x, y, z].map(|q| q * sign);
                for k in 0..4 {
                    // The largest component also has the errors of the others.
                    assert!((found[k] - quat[k]).abs() < 0.002, "{found:?} {quat:?}");
                }
            }
        }
        assert_eq!(
            smallest_three(pack_smallest_three([1.0, 0.0, 0.0, 0.0])),
            [0.0, 0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn what_covers_more_has_finer_harmonics() {
        let mut splats = empty(3, 1);
        splats.scales = vec![[-6.0; 3], [-3.9; 3], [-2.0; 3]];
        let bits = HarmonicBits::from_splats(&splats, None);
        // e^3.8 of area are 5.5 doublings, 1.9 bits.
        let of_degree_1: Vec<u32> = (0..3).map(|i| bits.at(i)[0]).collect();
        assert_eq!(of_degree_1, [2, 4, 6]);
        assert_eq!(bits.at(1)[1], 3);
        let same = HarmonicBits::from_splats(&splats, Some([6, 5]));
        assert!((0..3).all(|i| same.at(i) == [6, 5]));
        // Invisible and infinite Gaussians do not change the bits of the others.
        splats.scales[0] = [f32::NEG_INFINITY; 3];
        splats.scales[2] = [500.0; 3];
        let bits = HarmonicBits::from_splats(&splats, None);
        assert_eq!([0, 1, 2].map(|i| bits.at(i)[0]), [1, 4, 8]);
        assert!(
            matches!(HarmonicBits::from_splats(&empty(0, 1), None), HarmonicBits::ByCover(m) if m.is_empty())
        );
    }

    #[test]
    fn harmonics_go_to_the_middle_of_their_steps() {
        assert_eq!(pack_harmonic(0.0, 5), 128);
        // 0.1 * 128 = 12.8, so 141; the next value in steps of 8 and of 16 is 144.
        assert_eq!((pack_harmonic(0.1, 5), pack_harmonic(0.1, 4)), (144, 144));
        assert_eq!(
            (pack_harmonic(-0.05, 5), pack_harmonic(-0.05, 4)),
            (120, 128)
        );
        assert_eq!(
            (pack_harmonic(-9.0, 4), pack_harmonic(f32::INFINITY, 4)),
            (0, 255)
        );
    }
}
