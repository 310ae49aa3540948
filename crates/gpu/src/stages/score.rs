//! `score`: compares a render with its photo, and makes the pictures that show the error. See `shaders/score.wgsl`.

use super::project::PIXELS;
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::photos::packed_bytes;
use crate::recorder::Recorder;
use dapple_scene::Result;

/// Tensor of the photo to compare with; shaders name it `photo`.
pub const PHOTO: &str = "score_photo";

/// Four floats a tile: squared error, absolute error, lost similarity, 0.
pub const PARTIALS: &str = "score_partials";

/// Two pictures, each of [`picture_words`].
pub const PICTURES: &str = "score_pictures";

/// Returns the words of a picture of this number of pixels, three bytes each.
pub fn picture_words(pixels: u64) -> u64 {
    3 * pixels.div_ceil(4)
}

const SUMS: Code = Code::new("score", "sums");
const SHOWN: Code = Code::new("score", "pictures").by(Bits::PICTURES);

/// From `image` and the photo of the present view to the sums by tile, and to pictures if they are requested.
pub static PASS: Pass = Pass {
    shaders: shaders!["score"],
    kernels: &[SUMS, SHOWN],
    tensors: &[
        Tensor::with_words(Axis::One, PHOTO, |sizes| {
            let pixels = sizes.capacity.pixels.into();
            (packed_bytes(pixels, true) / 4) as u32
        })
        .when(Bits::SCORE),
        Tensor::new(Axis::Tile, PARTIALS, 4).when(Bits::SCORE),
        Tensor::with_words(Axis::One, PICTURES, |sizes| {
            2 * picture_words(sizes.capacity.pixels.into()) as u32
        })
        .when(Bits::PICTURES),
    ],
    borrows: &[("photo", PHOTO)],
    ..Pass::new("score", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&SUMS, PIXELS)?;
    match r.bits.has(Bits::PICTURES) {
        true => r.run(&SHOWN, PIXELS),
        false => Ok(()),
    }
}
