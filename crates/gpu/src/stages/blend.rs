//! `blend`: blends front to back, tile by tile. See `shaders/blend.wgsl`.

use super::project::{PIXELS, PIXELS_PART};
use super::{PIXEL, SPLAT, WORD, shaders};
use crate::layout::{BLOCKS_PER_TILE, BUCKET};
use crate::passes::{Axis, Bits, Code, Load, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_engine::constants::TILE_SIZE;
use dapple_scene::Result;

/// The kernel, also of a second blend.
pub const BLEND: Code = Code::new("blend", "blend")
    .by(Bits::RING
        .with(Bits::DEPTH)
        .with(Bits::IMAGE_ONLY)
        .with(Bits::COUNTS)
        .with(Bits::FRAMES))
    .in_parts();

/// Pixels of a tile.
const TILE_PIXELS: u32 = TILE_SIZE * TILE_SIZE;

/// Words that a tile's pixels write for `blend_backward` at the start of a bucket: colour and transmittance.
pub const CHECKPOINT_WORDS: u32 = 4 * TILE_PIXELS;

/// Tensor of what `blend_backward` starts from in each bucket. An engine that only renders has none.
pub const CHECKPOINTS: &str = "checkpoints";

/// Tensor of the number of Gaussians that each pixel blends.
pub const COUNTED: &str = "pixel_blended";

/// The stage: fills `image` and the inputs of `blend_backward` (`checkpoints`, `pixel_end`, `block_end`). With
/// [`Bits::DEPTH`] it also fills `depth_pixels` and `depth_checkpoints`, with [`Bits::COUNTS`] [`COUNTED`]. It raises
/// `state.lost_transmittance`. With [`Bits::IMAGE_ONLY`] the inputs of `blend_backward` are not filled, and need not
/// exist.
pub static PASS: Pass = Pass {
    shaders: shaders!["blend"],
    kernels: &[BLEND],
    tensors: &[
        Tensor::new(Axis::Pixel, "image", 4),
        Tensor::new(Axis::Bucket, CHECKPOINTS, CHECKPOINT_WORDS).unless(Bits::IMAGE_ONLY),
        // Whole tiles, so that every invocation of a tile has its own.
        Tensor::new(Axis::TilePixel, "pixel_end", 1).unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Tile, "block_end", BLOCKS_PER_TILE).unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Pixel, "depth_pixels", 2).when(Bits::DEPTH),
        Tensor::new(Axis::Bucket, "depth_checkpoints", TILE_PIXELS)
            .when(Bits::DEPTH)
            .unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Pixel, COUNTED, 1).when(Bits::COUNTS),
    ],
    first: &[Bits::NONE, Bits::IMAGE_ONLY],
    bytes: |load, _| {
        let lists = load.instances * WORD + load.visible * SPLAT + load.tiles * 2 * WORD;
        lists + load.pixels * PIXEL + left_bytes(load)
    },
    ..Pass::new("blend", record)
};

/// Returns the bytes that are written for `blend_backward`.
pub(super) fn left_bytes(load: &Load) -> u64 {
    let buckets = load.instances.div_ceil(u64::from(BUCKET));
    // The first bucket of a tile needs no checkpoint.
    let checkpoints = buckets.saturating_sub(load.tiles) * u64::from(CHECKPOINT_WORDS) * WORD;
    // The end of each pixel and each block.
    let ends = load.tiles * u64::from(TILE_PIXELS + BLOCKS_PER_TILE) * WORD;
    checkpoints + ends
}

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BLEND, Size::CountedOrParts(PIXELS, PIXELS_PART))
}
