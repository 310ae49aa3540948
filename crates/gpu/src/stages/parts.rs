//! Visible Gaussians between engines that hold parts of a model ([`dapple_engine::sharded`]). See `shaders/parts.wgsl`.

use super::blend_backward::EXTRA;
use super::order::SORT;
use super::project::{GAUSSIANS, OPTICS};
use super::shaders;
use crate::layout::{PART_BLOCKS, PART_ENGINES, SHOWN_HEAD};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Size;

/// Binding of the Gaussians that a view shows: [`SHOWN_HEAD`] words, then [`SHOWN_WORDS`](crate::layout::SHOWN_WORDS) for each.
pub const SHOWN: &str = "shown";
/// Binding of the indices of the Gaussians in [`SHOWN`], which do not travel.
pub const INDICES: &str = "shown_indices";
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
pub const RECEIVE: Code = Code::new("parts", "receive").by(EXTRA);
/// After `blend_backward`: writes [`SUMS`] of all parts.
pub const SLOT_SUMS: Code = Code::new("slot_sums", "slot_sums").by(Bits::SHARDED);
/// After [`SLOT_SUMS`] with [`EXTRA`]: writes the rest of [`SUMS`].
pub const EXTRA_SUMS: Code = Code::new("extra_sums", "extra_sums").by(EXTRA.with(Bits::SHARDED));
/// In steps of a batch after its first, instead of [`RESTORE`] and [`super::batch::SUMS`]: adds gradients.
pub const ADD_ROWS: Code =
    Code::new("gradients", "add_rows").by(EXTRA.with(OPTICS).with(Bits::BATCH).with(Bits::SHARDED));
/// After [`OPENED`]: takes [`SHOWN`] and [`SUMS`].
pub const RESTORE: Code = Code::new("parts", "restore").by(EXTRA);

/// After `project`: counts the visible Gaussians, or halts.
pub static COUNTED: Pass = Pass {
    shaders: shaders!["parts"],
    kernels: &[PREFIX],
    needs: Bits::SHARDED,
    tensors: &[
        Tensor::new(Axis::One, HEADS, PART_ENGINES * SHOWN_HEAD).when(Bits::SHARDED),
        Tensor::new(Axis::One, "block_places", PART_BLOCKS).when(Bits::SHARDED),
        Tensor::new(Axis::Visible, "sum_places", 1)
            .and_one()
            .when(Bits::SHARDED),
    ],
    ..Pass::new("parts", |r| r.run(&PREFIX, Size::ONE))
};

/// Instead of `project`: prepares for the visible Gaussians of all parts, whose heads are there.
pub static OPENED_ALL: Pass = Pass {
    kernels: &[BEGIN, OPEN, FIND],
    needs: Bits::SHARDED,
    ..Pass::new("parts", |r| {
        r.run(&BEGIN, Size::ONE)?;
        r.run(&OPEN, Size::ONE)?;
        r.run(&FIND, Size::ONE)
    })
};

/// After [`RECEIVE`]: sorts the visible Gaussians by depth.
pub static SORTED: Pass = Pass {
    needs: Bits::SHARDED,
    ..Pass::new("parts", |r| r.sort(&SORT))
};

/// Before `update`: prepares for the visible Gaussians of this part.
pub static OPENED: Pass = Pass {
    kernels: &[BEGIN, OPEN, CLEAR],
    needs: Bits::SHARDED,
    ..Pass::new("parts", |r| {
        r.run(&BEGIN, Size::ONE)?;
        r.run(&OPEN, Size::ONE)?;
        r.run(&CLEAR, GAUSSIANS)
    })
};
