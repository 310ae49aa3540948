//! A file for each stage: its declaration ([`crate::passes::Pass`]), and the dispatches of its kernels.

pub mod batch;
pub mod blend;
pub mod blend_backward;
pub mod bytes;
pub mod contributors;
pub mod densify;
pub mod emit;
pub mod finite;
pub mod frame_counts;
mod gather;
pub mod gradients;
pub mod loss;
pub mod morton;
pub mod order;
pub mod parts;
pub mod project;
pub mod ranges;
pub mod report;
pub mod score;
pub mod sort;
pub mod surface;
pub mod update;

/// Texts of shaders, by name.
macro_rules! shaders {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $name, ".wgsl")))),*]
    };
}
pub(crate) use shaders;

/// A float, an index, a key.
const WORD: u64 = crate::passes::WORD;
/// A float or index for red, green, blue and transmittance.
const PIXEL: u64 = 4 * WORD;
/// A projected Gaussian in `splats2d`.
const SPLAT: u64 = 12 * WORD;
/// A pass of the radix sort on a pair: its keys are counted, then pairs are read and written.
const SORT_PASS: u64 = 5 * WORD;
