//! Visible Gaussians between engines that hold parts of a model ([`dapple_engine::sharded`]). See `shaders/parts.wgsl`.

use super::blend_backward::EXTRA;
use super::order::SORT;
use super::project::GAUSSIANS;
use super::shaders;
use crate::layout::{PART_BLOCKS, SHOWN_HEAD};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Size;

/// Binding of the Gaussians that a view shows: [`SHOWN_HEAD`] words, then [`SHOWN_WORDS`](crate::layout::SHOWN_WORDS) for each.
pub const SHOWN: &str = "shown";
/// Binding of the sums of the Gaussians in [`SHOWN`], side by side.
pub const SUMS: &str = "sums";
/// Heads of all parts' [`SHOWN`].
pub const HEADS: &str = "part_heads";

const BEGIN: Code = Code::new("begin", "begin");
const PREFIX: Code = Code::new("order", "count");
const OPEN: Code = Code::new("parts", "open");
const FIND: Code = Code::new("parts", "find_blocks");
const CLEAR: Code = Code::new("parts", "clear_places");

// Kernels that bind shipments: the engine runs them between plans.

/// After [`COUNTED`]: writes [`SHOWN`].
pub const SEND: Code = Code::new("parts", "send");
/// After [`OPENED_ALL`], for each part: takes [`SHOWN`].
pub const RECEIVE: Code = Code::new("parts", "receive");
/// After `slot_sums`, for each part: writes [`SUMS`].
pub const PACK: Code = Code::new("parts", "pack").by(EXTRA);
/// After [`OPENED`]: takes [`SHOWN`] and [`SUMS`].
pub const RESTORE: Code = Code::new("parts", "restore").by(EXTRA);

/// After `project`: counts the visible Gaussians, or halts.
pub static COUNTED: Pass = Pass {
    shaders: shaders!["parts"],
    kernels: &[PREFIX],
    needs: Bits::PART,
    tensors: &[
        Tensor::new(Axis::One, HEADS, PART_BLOCKS * SHOWN_HEAD).when(Bits::PART),
        Tensor::new(Axis::One, "block_places", PART_BLOCKS).when(Bits::PART),
    ],
    ..Pass::new("parts", |r| r.run(&PREFIX, Size::ONE))
};

/// Instead of `project`: prepares for the visible Gaussians of all parts, whose heads are there.
pub static OPENED_ALL: Pass = Pass {
    kernels: &[BEGIN, OPEN, FIND],
    needs: Bits::PART,
    ..Pass::new("parts", |r| {
        r.run(&BEGIN, Size::ONE)?;
        r.run(&OPEN, Size::ONE)?;
        r.run(&FIND, Size::ONE)
    })
};

/// After [`RECEIVE`]: sorts the visible Gaussians by depth.
pub static SORTED: Pass = Pass {
    needs: Bits::PART,
    ..Pass::new("parts", |r| r.sort(&SORT))
};

/// Before `update`: prepares for the visible Gaussians of this part.
pub static OPENED: Pass = Pass {
    kernels: &[BEGIN, OPEN, CLEAR],
    needs: Bits::PART,
    ..Pass::new("parts", |r| {
        r.run(&BEGIN, Size::ONE)?;
        r.run(&OPEN, Size::ONE)?;
        r.run(&CLEAR, GAUSSIANS)
    })
};
