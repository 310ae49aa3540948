//! `sort`: sorts instances by tile, stably, so that each tile's instances stay in depth order.

use super::emit::SORT_INSTANCES;
use super::{SORT_PASS, WORD};
use crate::layout::State;
use crate::passes::{Axis, Bits, Pass, Tensor};
use crate::recorder::{LEAST_TILE_BITS, Recorder, Sort};
use dapple_scene::Result;
use std::mem::offset_of;

/// Two passes, up to 16 bits. The first numbers the instances instead of reading their numbers.
const TILE_SORT: u64 = 2 * SORT_PASS - WORD;

/// The stage: sorts `instance_tile`, and fills `sorted_slot` with the slots in that order.
pub static PASS: Pass = Pass {
    tensors: &[
        Tensor::new(Axis::Instance, "instance_tile_alt", 1).and_one(),
        Tensor::new(Axis::Instance, "instance_slot_alt", 1).and_one(),
        Tensor::new(Axis::Instance, "sorted_slot", 1).and_one(),
    ],
    sorts: &[(LEAST_TILE_BITS, true)],
    first: &[Bits::NONE],
    bytes: |load, _| load.instances * TILE_SORT,
    ..Pass::new("sort", record)
};

/// Returns the sort by tile, for tile numbers of this number of bits.
pub const fn by_tile(bits: u32) -> Sort {
    Sort {
        bits,
        // A slot is a place before the sort: the sort numbers them.
        numbered: true,
        keys: "instance_tile",
        values: "sorted_slot",
        keys_alt: "instance_tile_alt",
        values_alt: "instance_slot_alt",
        count: ("state", (offset_of!(State, instances) / 4) as u32),
        size: SORT_INSTANCES,
    }
}

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.sort(&by_tile(r.tile_bits()))
}
