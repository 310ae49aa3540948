//! SPZ, Niantic's packed splats (nianticlabs/spz, MIT): one to three bytes where PLY has four, one attribute after the
//! other, compressed. Versions 1 to 4 are read, 3 and 4 written.
//!
//! 1. Versions 1 to 3 are one gzip member around a header of 16 bytes and the six attributes. Version 4 has an
//!    uncompressed header of 32 bytes, records of its extensions, a table of sizes and a Zstandard frame for each
//!    attribute that is not empty.
//! 2. [`Header::sizes`]: the size of each attribute, from the count; compared with the file's size before anything is
//!    allocated. Gzip reaches a ratio of 1032, so no valid file declares more.
//! 3. `attributes`: positions in 24 bits of fixed point, opacities and colours in 8 bits, ln of scales in steps of
//!    1/16, rotations by three bytes (version 2) or by the three smaller components in 10 bits each, harmonics in 8
//!    bits, with lower bits at the middle of wider steps.
//! 4. Axes: the description and `splat-transform` use right, up, back, but some tools have written the axes of PLY
//!    files. Axes that a file declares are used; for all other files the caller selects the axes.

mod attributes;
mod gzip;
mod read;
mod write;

pub(super) use read::parse;
pub(super) use write::encode;

use crate::{Error, Result};

/// "NGSP": the first bytes of a file of version 4, and of the unpacked data of other versions.
const MAGIC: [u8; 4] = *b"NGSP";

/// First bytes of a gzip file.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// Bytes of the header of versions 1 to 3, and of version 4.
const LEGACY_HEADER: usize = 16;
const HEADER: usize = 32;

/// Maximum size of one unpacked byte of a gzip file (258 in 2 bits); the limit also applies to Zstandard.
const MOST_RATIO: u64 = 1032;

/// Bits of the header's flags.
const ANTIALIASED: u8 = 1;
const EXTENSIONS: u8 = 2;

/// Extension that declares the axes.
const AXES_RECORD: u32 = 0xADBE_0003;

const DAMAGED: &str = "the file is damaged or cut: copy or export it again";

/// Returns true if bytes begin like an SPZ file. Other gzip files are not splats that Dapple knows.
pub(super) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || bytes.starts_with(&GZIP)
}

/// Fields that the headers of all versions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    version: u32,
    count: usize,
    /// Degree of harmonics, 0 to 4.
    degree: u8,
    /// Bits of a position after the binary point.
    fractional_bits: u8,
    flags: u8,
}

/// Attributes in their order.
const ATTRIBUTES: [&str; 6] = [
    "positions",
    "opacities",
    "colours",
    "scales",
    "rotations",
    "harmonics",
];

impl Header {
    fn new(version: u32, count: u32, [degree, fractional_bits, flags]: [u8; 3]) -> Result<Self> {
        let refuse = |what: String, at: usize| {
            Err(Error::unsupported(what)
                .at(format!("byte {at} of the header"))
                .hint("Dapple reads versions 1 to 4, harmonics of degree 0 to 4; or the file is damaged"))
        };
        if !(1..=4).contains(&version) {
            return refuse(format!("this is SPZ of version {version}"), 4);
        }
        if degree > 4 {
            return refuse(
                format!("this SPZ file has harmonics of degree {degree}"),
                12,
            );
        }
        if fractional_bits > 23 {
            return refuse(
                format!("this SPZ file has {fractional_bits} bits of 24 after the point"),
                13,
            );
        }
        Ok(Self {
            version,
            count: count as usize,
            degree,
            fractional_bits,
            flags,
        })
    }

    /// Returns the bytes of a Gaussian in each attribute.
    fn strides(&self) -> [usize; 6] {
        let rest = (usize::from(self.degree) + 1).pow(2) - 1;
        let position = if self.version == 1 { 6 } else { 9 };
        let rotation = if self.version >= 3 { 4 } else { 3 };
        [position, 1, 3, 3, rotation, 3 * rest]
    }

    /// Returns the bytes of each attribute, if a file of `file_bytes` can hold them.
    fn sizes(&self, file_bytes: usize) -> Result<[usize; 6]> {
        let strides = self.strides();
        let all = self.count as u64 * strides.iter().sum::<usize>() as u64;
        if all > MOST_RATIO * file_bytes as u64 {
            let what = format!(
                "the SPZ file promises {} Gaussians, which {file_bytes} bytes cannot hold",
                self.count
            );
            return Err(Error::input(what).at("byte 8 of the header").hint(DAMAGED));
        }
        Ok(strides.map(|stride| stride * self.count))
    }
}
