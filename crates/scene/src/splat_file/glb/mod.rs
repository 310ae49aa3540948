//! glTF binary files with Khronos' `KHR_gaussian_splatting`: float by float, about as large as PLY.
//!
//! 1. A file is a header, a chunk of JSON and a chunk of numbers. A primitive of points has the extension and an
//!    attribute for each property; attributes are accessors, which are views of the chunk of numbers.
//! 2. Reading: every primitive with the extension that a node of the scene shows, through the nodes' translations,
//!    rotations and uniform scales; attributes as floats or as integers that are meant as fractions.
//! 3. Axes: glTF has y up and captures have it down. The file's content is turned half round z, as `splat-transform`
//!    does: (x, y, z) becomes (-x, -y, z), for centres, rotations and harmonics, so that no reader need turn anything.

mod read;
mod write;

pub(super) use read::parse;
pub(super) use write::encode;

use super::axes::{Axes, Signs};

const MAGIC: &[u8; 4] = b"glTF";
const JSON_CHUNK: u32 = 0x4e4f_534a;
const BIN_CHUNK: u32 = 0x004e_4942;
const EXTENSION: &str = "KHR_gaussian_splatting";

/// `accessor.componentType` of `f32`, and `primitive.mode` of points.
const FLOAT: u32 = 5126;
const POINTS: u32 = 0;

/// Whether bytes begin as a binary glTF file does.
pub(super) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Half a turn about z: left, up, forward.
fn signs() -> Signs {
    Axes::Luf.signs()
}

/// The attribute of coefficient `n` of a degree.
fn coefficient(degree: usize, n: usize) -> String {
    format!("{EXTENSION}:SH_DEGREE_{degree}_COEF_{n}")
}
