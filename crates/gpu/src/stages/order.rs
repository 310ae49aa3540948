//! `order`: the visible Gaussians by depth. See `shaders/order.wgsl`.

use super::project::{DEPTH_BITS, FRAME_VISIBLE, GAUSSIANS};
use super::{SORT_PASS, WORD, shaders};
use crate::layout::State;
use crate::passes::{Axis, Bits, Code, Entry, Pass, Tensor};
use crate::recorder::{Recorder, Size, Sort};
use dapple_scene::Result;
use std::mem::offset_of;

/// Visible / 256.
pub const VISIBLE: Entry = Entry("GROUPS_VISIBLE");
/// Visible / [`crate::layout::SLOT_SUMS_GAUSSIANS`].
pub const SLOT_SUMS: Entry = Entry("GROUPS_SLOT_SUMS");
/// Visible / a block of the radix sort.
pub const SORT_VISIBLE: Entry = Entry("GROUPS_SORT_VISIBLE");

const COUNT: Code = Code::new("order", "count");
const COMPACT: Code = Code::new("order", "compact");
const COMPACT_FRAMES: Code = Code::new("order", "compact_frames");

/// Bits of a depth: positive floats, so that the sign is always 0.
pub const KEY_BITS: u32 = 31;

/// The sort by depth.
pub const SORT: Sort = Sort {
    bits: KEY_BITS,
    numbered: false,
    keys: "depth_keys",
    values: "depth_values",
    keys_alt: "depth_keys_alt",
    values_alt: "depth_values_alt",
    count: ("state", (offset_of!(State, visible) / 4) as u32),
    size: SORT_VISIBLE,
};

/// Passes of the sort by depth.
const DEPTH_PASSES: u64 = 4;

/// The stage: fills `depth_values` with the visible Gaussians' places, front to back, `depth_keys` with the bits of
/// their depths, and `state.visible`; or halts.
pub static PASS: Pass = Pass {
    shaders: shaders!["order"],
    kernels: &[COUNT, COMPACT],
    tensors: &[
        Tensor::new(Axis::Visible, "depth_keys", 1).and_one(),
        Tensor::new(Axis::Visible, "depth_values", 1).and_one(),
        Tensor::new(Axis::Visible, "depth_keys_alt", 1).and_one(),
        Tensor::new(Axis::Visible, "depth_values_alt", 1).and_one(),
    ],
    borrows: &[DEPTH_BITS],
    entries: &[VISIBLE, SLOT_SUMS, SORT_VISIBLE],
    sorts: &[(KEY_BITS, false)],
    first: &[Bits::NONE],
    // Places and depths in, pairs out; the sort.
    bytes: |load, _| {
        load.gaussians * WORD + load.visible * (WORD + 2 * WORD + DEPTH_PASSES * SORT_PASS)
    },
    unless: Bits::FRAMES,
    ..Pass::new("order", |r| record(r, &COMPACT))
};

/// The stage in a render of several views: the visible Gaussians of all of them.
pub static FRAMES: Pass = Pass {
    kernels: &[COUNT, COMPACT_FRAMES],
    needs: Bits::FRAMES,
    borrows: &[DEPTH_BITS, FRAME_VISIBLE],
    ..Pass::new("order", |r| record(r, &COMPACT_FRAMES))
};

fn record(r: &mut Recorder<'_>, compact: &Code) -> Result<()> {
    r.run(&COUNT, Size::ONE)?;
    r.run(compact, GAUSSIANS)?;
    r.sort(&SORT)
}
