//! Storage formats of SH coefficients and the optimizer's moments. Arithmetic is `f32` throughout.
//!
//! 1. Sixteen-bit storage packs planes 2p (low half) and 2p + 1 (high half) of Gaussian i into the
//!    word `p * capacity + i`. The high half of an odd last plane's word is zero.
//! 2. Uploads round to nearest, so that downloaded numbers are uploaded bit-identically. Training
//!    steps are far smaller than a sixteen-bit number's last place and would vanish: `update`
//!    rounds stochastically (see `shaders/shared/rounding.wgsl`), so that steps add up in the mean.
//! 3. `bf16` has the range of `f32`: everything is stored unscaled.
//! 4. `f16` ends at 6e-8 and 65504, and gradients are means over a million pixels. Second moments
//!    are stored as their roots, whose range is the gradient's, and both moments times
//!    [`MOMENT_SCALE`]. Gradients from 1.5e-11 (one step of the subnormals) to 16 survive, those
//!    above 1.5e-8 with all 11 bits, 1e-9 with 6 bits. Larger gradients saturate in both moments
//!    equally, so the length of Adam's steps does not change.

use dapple_runtime::{AdapterReport, Defines};
use dapple_scene::{Error, Result, sh_coefficient_count};
use half::{bf16, f16};
use std::fmt;
use std::str::FromStr;

/// Factor on moments in `f16` storage, a power of two; `MOMENT_SCALE` in WGSL.
pub const MOMENT_SCALE: f32 = 4096.0;

/// Numbers in a Gaussian's geometry: centre, scales, rotation, opacity, SH coefficient 0.
const GEOMETRY: u32 = crate::layout::plane::GEOMETRY as u32;

/// Storage format of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// 32 bits.
    #[default]
    F32,
    /// IEEE 754 half: 11 bits of precision, 6e-8 to 65504.
    F16,
    /// The upper half of an `f32`: 8 bits of precision, the range of `f32`.
    Bf16,
}

impl Storage {
    /// Returns the words of 32 bits that `planes` numbers of a Gaussian take.
    pub const fn words(self, planes: u32) -> u32 {
        match self {
            Self::F32 => planes,
            Self::F16 | Self::Bf16 => planes.div_ceil(2),
        }
    }

    /// Returns the name, which is parsed too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Storage {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err(Error::input(format!("\"{text}\" is no storage precision"))
                .hint("write f32, f16 or bf16")),
        }
    }
}

/// Storage formats of an engine's trained numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Precision {
    /// SH coefficients 1 and up.
    pub sh: Storage,
    /// Adam's first and second moments of all parameters.
    pub moments: Storage,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.sh, self.moments)
    }
}

impl FromStr for Precision {
    type Err = Error;

    /// Parses `bf16`, or `SH,MOMENTS` as in `f16,bf16`.
    fn from_str(text: &str) -> Result<Self> {
        let (sh, moments) = text.split_once(',').unwrap_or((text, text));
        Ok(Self {
            sh: sh.trim().parse()?,
            moments: moments.trim().parse()?,
        })
    }
}

impl Precision {
    /// Checks that a device supports these formats.
    ///
    /// # Errors
    /// `f16` on a device whose shaders cannot pack it.
    pub fn check(self, device: &AdapterReport) -> Result<()> {
        if device.packs_f16 || ![self.sh, self.moments].contains(&Storage::F16) {
            return Ok(());
        }
        let what = format!("{} cannot store f16: its driver packs none", device.name);
        Err(Error::unsupported(what).hint("use bf16, which takes as little memory, or f32"))
    }

    /// Adds the constants and flags of this permutation.
    #[must_use]
    pub fn define(self, defines: Defines) -> Defines {
        defines
            .f32("MOMENT_SCALE", MOMENT_SCALE)
            .flag("SH_F16", self.sh == Storage::F16)
            .flag("SH_BF16", self.sh == Storage::Bf16)
            .flag("SH_PACKED", self.sh != Storage::F32)
            .flag("MOMENTS_F16", self.moments == Storage::F16)
            .flag("MOMENTS_BF16", self.moments == Storage::Bf16)
            .flag("MOMENTS_PACKED", self.moments != Storage::F32)
    }

    /// Returns the bytes that parameters and moments of a Gaussian take; `update` reads and writes
    /// them once.
    pub const fn bytes_per_gaussian(self, sh_degree: u8) -> u64 {
        let rest = (sh_coefficient_count(sh_degree) as u32 - 1) * 3;
        let moments = 2 * (self.moments.words(GEOMETRY) + self.moments.words(rest));
        4 * (GEOMETRY + self.sh.words(rest) + moments) as u64
    }
}

/// Meaning of the numbers, for [`pack`] and [`unpack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Parameters, stored unscaled.
    Parameters,
    /// First moments.
    First,
    /// Second moments.
    Second,
}

impl Values {
    /// Returns the number to store for a value.
    fn encode(self, storage: Storage, value: f32) -> f32 {
        match (self, storage) {
            (Self::First, Storage::F16) => value * MOMENT_SCALE,
            (Self::Second, Storage::F16) => value.max(0.0).sqrt() * MOMENT_SCALE,
            _ => value,
        }
    }

    fn decode(self, storage: Storage, stored: f32) -> f32 {
        match (self, storage) {
            (Self::First, Storage::F16) => stored / MOMENT_SCALE,
            (Self::Second, Storage::F16) => (stored / MOMENT_SCALE) * (stored / MOMENT_SCALE),
            _ => stored,
        }
    }
}

/// Returns the words to upload for `planes`, `[planes, capacity]`.
pub fn pack(storage: Storage, values: Values, planes: &[f32], capacity: usize) -> Vec<u32> {
    let half: fn(f32) -> u16 = match storage {
        Storage::F32 => return planes.iter().map(|v| v.to_bits()).collect(),
        Storage::F16 => f16_from_f32,
        Storage::Bf16 => bf16_from_f32,
    };
    let capacity = capacity.max(1);
    let count = planes.len() / capacity;
    let mut words = vec![0u32; count.div_ceil(2) * capacity];
    for (p, plane) in planes.chunks_exact(capacity).enumerate() {
        let start = p / 2 * capacity;
        for (word, &value) in words[start..start + capacity].iter_mut().zip(plane) {
            *word |= u32::from(half(values.encode(storage, value))) << (16 * (p % 2));
        }
    }
    words
}

/// Returns the planes, `[planes, capacity]`, of downloaded words.
pub fn unpack(
    storage: Storage,
    values: Values,
    words: &[u32],
    planes: usize,
    capacity: usize,
) -> Vec<f32> {
    let widen: fn(u16) -> f32 = match storage {
        Storage::F32 => {
            let count = planes * capacity;
            return words
                .iter()
                .take(count)
                .map(|&w| f32::from_bits(w))
                .collect();
        }
        Storage::F16 => f32_from_f16,
        Storage::Bf16 => |half| bf16::from_bits(half).to_f32(),
    };
    let mut out = Vec::with_capacity(planes * capacity);
    for p in 0..planes {
        let start = p / 2 * capacity;
        out.extend(words.iter().skip(start).take(capacity).map(|word| {
            let half = (word >> (16 * (p % 2))) as u16;
            values.decode(storage, widen(half))
        }));
    }
    out
}

/// Returns the nearest half, ties to even; a number that is too large becomes the largest finite
/// half.
fn f16_from_f32(value: f32) -> u16 {
    let most = f16::MAX.to_f32();
    let value = if value.is_finite() {
        value.clamp(-most, most)
    } else {
        value
    };
    f16::from_f32(value).to_bits()
}

fn f32_from_f16(half: u16) -> f32 {
    f16::from_bits(half).to_f32()
}

/// Returns the nearest bf16, ties to even.
fn bf16_from_f32(value: f32) -> u16 {
    bf16::from_f32(value).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives() {
        for half in 0..=u16::MAX {
            let value = f32_from_f16(half);
            if value.is_nan() {
                assert!(f32_from_f16(f16_from_f32(value)).is_nan());
            } else {
                assert_eq!(f16_from_f32(value), half, "{value}");
            }
            let value = f32::from_bits(u32::from(half) << 16);
            if !value.is_nan() {
                assert_eq!(bf16_from_f32(value), half, "{value}");
            }
        }
    }

    #[test]
    fn rounds_to_the_nearest() {
        for (value, half) in [
            (1.0, 0x3c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (-2.5, 0xc100),
            (65504.0, 0x7bff),
            (1e9, 0x7bff),
            (f32::INFINITY, 0x7c00),
            (6.0e-8, 0x0001),
            (2.9e-8, 0x0000),
            (6.1e-5, 0x03ff),
            (6.1035e-5, 0x0400),
        ] {
            assert_eq!(f16_from_f32(value), half, "{value}");
        }
        assert_eq!(bf16_from_f32(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(bf16_from_f32(1.0 + 3.0 / 256.0), 0x3f82);
    }

    #[test]
    fn packed_planes_survive() {
        let capacity = 5;
        let planes: Vec<f32> = (0..3 * capacity).map(|i| i as f32 * 0.25).collect();
        for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
            for values in [Values::Parameters, Values::First] {
                let words = pack(storage, values, &planes, capacity);
                assert_eq!(words.len(), storage.words(3) as usize * capacity);
                assert_eq!(unpack(storage, values, &words, 3, capacity), planes);
            }
            // A stored number is packed bit-identically again.
            let words = pack(storage, Values::Second, &planes, capacity);
            let once = unpack(storage, Values::Second, &words, 3, capacity);
            assert_eq!(pack(storage, Values::Second, &once, capacity), words);
            let error = once
                .iter()
                .zip(&planes)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(error <= 4.0 / 256.0, "{storage}: {error}");
            assert!(pack(storage, Values::First, &[], 0).is_empty());
        }
    }

    #[test]
    fn precisions_are_read_and_written() {
        let mixed = Precision {
            sh: Storage::F16,
            moments: Storage::Bf16,
        };
        assert_eq!("f16,bf16".parse::<Precision>().ok(), Some(mixed));
        assert_eq!(mixed.to_string(), "f16,bf16");
        assert_eq!("f32".parse::<Precision>().ok(), Some(Precision::default()));
        for bad in ["", "f64", "f16,", "f16,f16,f16"] {
            assert!(bad.parse::<Precision>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_those_of_the_planes() {
        let with = |sh, moments| Precision { sh, moments }.bytes_per_gaussian(3);
        assert_eq!(with(Storage::F32, Storage::F32), 59 * 12);
        assert_eq!(with(Storage::F16, Storage::Bf16), 56 + 92 + 2 * (28 + 92));
        assert_eq!(Precision::default().bytes_per_gaussian(0), 14 * 12);
    }
}
