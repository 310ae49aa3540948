//! `frame_counts`: the counts of each view in a render of several. See `shaders/frame_counts.wgsl`.

use super::project::FRAME_VISIBLE;
use super::shaders;
use crate::layout::{FrameCounts, MOST_FRAMES};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::Size;

/// [`FrameCounts`] by view.
pub const FRAME_COUNTS: &str = "frame_counts";

const WORDS: u32 = (size_of::<FrameCounts>() / 4) as u32;

const COUNTS: Code = Code::new("frame_counts", "counts");

/// The stage. `blend` adds the lost transmittance.
pub static PASS: Pass = Pass {
    shaders: shaders!["frame_counts"],
    kernels: &[COUNTS],
    needs: Bits::FRAMES,
    tensors: &[Tensor::new(Axis::One, FRAME_COUNTS, MOST_FRAMES * WORDS).when(Bits::FRAMES)],
    borrows: &[FRAME_VISIBLE],
    ..Pass::new("ranges", |r| r.run(&COUNTS, Size::flat(MOST_FRAMES)))
};
