//! `emit`: one instance per (Gaussian, tile), in depth order. See `shaders/emit.wgsl`.

use super::order::VISIBLE;
use super::{SPLAT, WORD, shaders};
use crate::passes::{Axis, Bits, Code, Entry, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Instances / a block of the radix sort.
pub const SORT_INSTANCES: Entry = Entry("GROUPS_SORT_INSTANCES");
/// Instances / [`crate::layout::EMIT_BLOCK`].
pub const EMIT: Entry = Entry("GROUPS_EMIT");

const SUMS: Code = Code::new("emit", "sums").by(Bits::FRAMES);
const TOTAL: Code = Code::new("emit", "total");
const STARTS: Code = Code::new("emit", "starts").by(Bits::FRAMES);
const LIST: Code =
    Code::new("emit", "list").by(Bits::RING.with(Bits::CHOSEN_TILES).with(Bits::FRAMES));

/// The stage: fills `emit_starts`, `instance_tile`, `instance_gaussian` and `state.instances`, or halts.
pub static PASS: Pass = Pass {
    shaders: shaders!["emit"],
    kernels: &[SUMS, TOTAL, STARTS, LIST],
    tensors: &[
        Tensor::new(Axis::Visible, "emit_starts", 1).and_one(),
        Tensor::new(Axis::Instance, "instance_tile", 1).and_one(),
        Tensor::new(Axis::Instance, "instance_gaussian", 1).and_one(),
    ],
    borrows: &[
        // `order` no longer uses it, and it has a word per 256 Gaussians.
        ("emit_sums", "group_visible"),
        // The sort has not begun to use it.
        ("emit_blocks", "instance_tile_alt"),
    ],
    entries: &[SORT_INSTANCES, EMIT],
    first: &[Bits::NONE],
    // By rank: twice the place and its number of tiles; its first instance out and in; place and splat in. By instance:
    // tile and place out.
    bytes: |load, _| {
        load.visible * (2 * 2 * WORD + 2 * WORD + WORD + SPLAT) + load.instances * 2 * WORD
    },
    ..Pass::new("emit", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&SUMS, VISIBLE)?;
    r.run(&TOTAL, Size::ONE)?;
    r.run(&STARTS, VISIBLE)?;
    r.run(&LIST, EMIT)
}
