//! glTF files with Khronos' `KHR_gaussian_splatting`: float by float, about as large as PLY. Binary files (`.glb`) are
//! written and read, text files (`.gltf`) with their buffers are read.
//!
//! 1. `container`: a binary file is a header, a chunk of JSON and a chunk of numbers. `json`: the keys of the JSON.
//!    `buffers`: the chunk of numbers, files next to it, or base64 in the JSON. `accessors`: views of these as floats.
//! 2. `primitive`: a primitive of points has the extension and an attribute for each property, or an SPZ file in a view
//!    (`KHR_gaussian_splatting_compression_spz`). `colour`: linear colours are converted to those of a display.
//! 3. `nodes`: the scene's nodes with their parents place the meshes; one mesh may have several places. `place`: a
//!    node's matrix moves, rotates and stretches Gaussians and rotates their harmonics.
//! 4. Axes: glTF has y up and captures have y down. The file's content is rotated by 180 degrees about z, as in
//!    `splat-transform`: (x, y, z) becomes (-x, -y, z), for centres, rotations and harmonics, so that readers need no
//!    rotation.

mod accessors;
mod buffers;
mod colour;
mod container;
mod json;
mod nodes;
mod place;
mod primitive;
mod read;
mod write;

pub use colour::srgb;
pub use container::Chunks;
pub(super) use read::{parse, parse_beside};
pub(super) use write::encode;

use super::axes::{Axes, Signs};
use crate::{Error, Result};

const MAGIC: &[u8; 4] = b"glTF";
const JSON_CHUNK: u32 = 0x4e4f_534a;
const BIN_CHUNK: u32 = 0x004e_4942;
const EXTENSION: &str = "KHR_gaussian_splatting";

/// Values of `accessor.componentType` for `f32`, and of `primitive.mode` for points.
const FLOAT: u32 = 5126;
const POINTS: u32 = 0;

const DAMAGED: &str =
    "the file is damaged, or was written by a program that takes glTF otherwise: export it again";

/// Returns true if bytes begin like a binary glTF file.
pub(super) fn is_content(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Returns the signs of a rotation by 180 degrees about z: left, up, forward.
fn signs() -> Signs {
    Axes::Luf.signs()
}

/// Returns the attribute of coefficient `n` of a degree.
fn coefficient(degree: usize, n: usize) -> String {
    format!("{EXTENSION}:SH_DEGREE_{degree}_COEF_{n}")
}

fn refuse<T>(what: String, at: &str) -> Result<T> {
    Err(Error::input(what).at(at.to_owned()).hint(DAMAGED))
}
