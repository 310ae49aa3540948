//! `blend_backward`: writes each instance's gradient to its gradient slot. See `shaders/blend_backward.wgsl`.

use super::blend::left_bytes;
use super::ranges::{BUCKETS, BUCKETS_PART};
use super::{PIXEL, SPLAT, WORD, shaders};
use crate::layout::{BUCKET, SLOT_FLOATS};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use dapple_scene::Result;

/// Bits with which an instance has more numbers than its gradient slot holds.
pub const EXTRA: Bits = Bits::ABSOLUTE.with(Bits::DEPTH);

/// The kernel, also of a second blend.
pub const BACKWARD: Code = Code::new("blend_backward", "blend_backward")
    .by(EXTRA.with(Bits::RING))
    .in_parts();

/// The stage: fills `slots`, in some permutations `extra_slots`, from `image_gradient` and the output of `blend`.
pub static PASS: Pass = Pass {
    shaders: shaders!["blend_backward"],
    kernels: &[BACKWARD],
    tensors: &[
        Tensor::new(Axis::Instance, "slots", SLOT_FLOATS)
            .and_one()
            .unless(Bits::IMAGE_ONLY),
        Tensor::with_words(Axis::Instance, "extra_slots", |sizes| {
            sizes.asked.extra_floats()
        })
        .and_one()
        .when(EXTRA)
        .unless(Bits::IMAGE_ONLY),
    ],
    first: &[Bits::NONE],
    // Gaussians, slots, splats, tiles of buckets, image, its gradient and the output of `blend` in; slots out.
    bytes: |load, _| {
        let buckets = load.instances.div_ceil(u64::from(BUCKET));
        let lists = load.instances * 2 * WORD
            + load.visible * SPLAT
            + load.tiles * 2 * WORD
            + buckets * WORD;
        let slots = load.instances * u64::from(SLOT_FLOATS) * WORD;
        lists + load.pixels * 2 * PIXEL + left_bytes(load) + slots
    },
    ..Pass::new("blend_backward", record)
};

fn record(r: &mut Recorder<'_>) -> Result<()> {
    r.run(&BACKWARD, Size::CountedOrParts(BUCKETS, BUCKETS_PART))
}
