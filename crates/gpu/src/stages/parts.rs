//! Visible Gaussians between engines that hold parts of a model ([`dapple_engine::sharded`]). See `shaders/parts.wgsl`.

use super::blend_backward::EXTRA;
use super::order::{SORT, VISIBLE};
use super::project::GAUSSIANS;
use super::shaders;
use crate::layout::{SHOWN_WORDS, SLOT_FLOATS};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Gaussians that a view shows, [`SHOWN_WORDS`] words each.
pub const SHOWN: &str = "shown";
/// Sums of the Gaussians in [`SHOWN`], side by side.
pub const SUMS: &str = "sums";

const BEGIN: Code = Code::new("begin", "begin");
const PREFIX: Code = Code::new("order", "count");
const SEND: Code = Code::new("parts", "send");
const OPEN: Code = Code::new("parts", "open");
const RECEIVE: Code = Code::new("parts", "receive");
const CLEAR: Code = Code::new("parts", "clear_places");
const PACK: Code = Code::new("parts", "pack").by(EXTRA);
const RESTORE: Code = Code::new("parts", "restore").by(EXTRA);

/// After `project`: fills [`SHOWN`], and `state.visible`; or halts.
pub static SENT: Pass = Pass {
    shaders: shaders!["parts"],
    kernels: &[PREFIX, SEND],
    needs: Bits::PART,
    tensors: &[
        Tensor::new(Axis::Visible, SHOWN, SHOWN_WORDS).when(Bits::PART),
        Tensor::with_words(Axis::Visible, SUMS, |sizes| {
            SLOT_FLOATS + sizes.asked.extra_floats()
        })
        .when(Bits::PART),
    ],
    ..Pass::new("parts", |r| {
        r.run(&PREFIX, Size::ONE)?;
        r.run(&SEND, GAUSSIANS)
    })
};

/// Instead of `project` and `order`: the visible Gaussians are those of [`SHOWN`].
pub static RECEIVED: Pass = Pass {
    kernels: &[BEGIN, OPEN, RECEIVE],
    needs: Bits::PART,
    ..Pass::new("parts", receive)
};

fn receive(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BEGIN, Size::ONE)?;
    r.run(&OPEN, Size::ONE)?;
    r.run(&RECEIVE, VISIBLE)?;
    r.sort(&SORT)
}

/// After `slot_sums`: fills [`SUMS`].
pub static PACKED: Pass = Pass {
    kernels: &[PACK],
    needs: Bits::PART,
    ..Pass::new("parts", |r| r.run(&PACK, VISIBLE))
};

/// Before `update`: the visible Gaussians are those of [`SHOWN`], with the gradients of [`SUMS`].
pub static RESTORED: Pass = Pass {
    kernels: &[BEGIN, OPEN, CLEAR, RESTORE],
    needs: Bits::PART,
    ..Pass::new("parts", restore)
};

fn restore(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BEGIN, Size::ONE)?;
    r.run(&OPEN, Size::ONE)?;
    r.run(&CLEAR, GAUSSIANS)?;
    r.run(&RESTORE, VISIBLE)
}
