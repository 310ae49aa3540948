//! `ranges`: the instances of each tile, and their buckets. See `shaders/ranges.wgsl`.

use super::emit::EMIT;
use super::{WORD, shaders};
use crate::layout::{BUCKET, WORKGROUP};
use crate::passes::{Axis, Bits, Code, Entry, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Buckets.
pub const BUCKETS: Entry = Entry("GROUPS_BUCKETS");
/// Buckets / [`crate::layout::DISPATCH_PARTS`].
pub const BUCKETS_PART: Entry = Entry("GROUPS_BUCKETS_PART");

const GATHER: Code = Code::new("ranges", "gather");
const LIST: Code = Code::new("ranges", "buckets");

/// The stage: fills `sorted_gaussian`, `tile_start`, `bucket_start`, `bucket_tile`, `tile_order` and the
/// counts of `state`, or halts.
pub static PASS: Pass = Pass {
    shaders: shaders!["ranges"],
    kernels: &[GATHER, LIST],
    tensors: &[
        Tensor::new(Axis::Instance, "sorted_gaussian", 1).and_one(),
        Tensor::new(Axis::Tile, "tile_start", 1).and_one(),
        Tensor::new(Axis::Tile, "bucket_start", 1).and_one(),
        Tensor::new(Axis::Tile, "tile_order", 1),
        Tensor::new(Axis::Bucket, "bucket_tile", 1),
    ],
    borrows: &[("sorted_keys", "instance_tile")],
    entries: &[BUCKETS, BUCKETS_PART],
    first: &[Bits::NONE],
    // Tiles, slots, Gaussians in, Gaussians out; by tile: starts out, in, buckets out, in.
    bytes: |load, _| {
        let buckets = load.instances.div_ceil(u64::from(BUCKET));
        load.instances * 4 * WORD + load.tiles * 4 * WORD + buckets * WORD
    },
    ..Pass::new("ranges", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&GATHER, EMIT)?;
    // It writes the buffer of indirect dispatches, so it cannot be indirect: as many workgroups as the largest view
    // needs.
    let tiles = (r.bytes_of("tile_start")? / WORD) as u32;
    r.run(&LIST, Size::flat(tiles.div_ceil(WORKGROUP)))
}
