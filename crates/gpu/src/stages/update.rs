//! `update`: from gradient slots to new parameters. See `shaders/slot_sums.wgsl`, `shaders/extra_sums.wgsl` and
//! `shaders/update.wgsl`.

use super::blend_backward::EXTRA;
use super::order::{SLOT_SUMS, VISIBLE};
use super::project::{OPTICS, UPDATE};
use super::{PIXEL, WORD, shaders};
use crate::layout::{SLOT_FLOATS, plane, sh_planes};
use crate::passes::{Axis, Bits, Code, Kind, Pass, Tensor};

/// The kernel that adds up gradient slots, also those of a second blend.
pub const SLOTS: Code = Code::new("slot_sums", "slot_sums");
const EXTRA_SLOTS: Code = Code::new("extra_sums", "extra_sums").by(EXTRA);

const KERNEL: Code =
    Code::new("update", "update").by(Bits::EXTRAS.with(EXTRA).with(OPTICS).with(OF_FEATURES));

/// Features that change the gradients of a Gaussian.
pub const OF_FEATURES: Bits = Bits::MLP.with(Bits::NORMALS);

/// First part: `splat_gradients` from `slots`.
pub static SUMS: Pass = Pass {
    shaders: shaders!["slot_sums"],
    kernels: &[SLOTS],
    tensors: &[Tensor::new(Axis::Visible, "splat_gradients", SLOT_FLOATS)
        .and_one()
        .unless(Bits::IMAGE_ONLY)],
    first: &[Bits::NONE],
    ..Pass::new("update", |r| r.run(&SLOTS, SLOT_SUMS))
};

/// Second part: `extra_gradients` from `extra_slots`.
pub static EXTRA_SUMS: Pass = Pass {
    shaders: shaders!["extra_sums"],
    kernels: &[EXTRA_SLOTS],
    needs: EXTRA,
    tensors: &[
        Tensor::with_words(Axis::Visible, "extra_gradients", |sizes| {
            sizes.asked.extra_floats()
        })
        .and_one()
        .when(EXTRA)
        .unless(Bits::IMAGE_ONLY),
    ],
    ..Pass::new("update", |r| r.run(&EXTRA_SLOTS, VISIBLE))
};

/// Third part, the step. Reads the results of the stages before for visible Gaussians; changes parameters, moments and,
/// with [`crate::layout::FLAG_DENSITY`], `stats`. Batches of several steps have other passes: [`super::batch`].
pub static PASS: Pass = Pass {
    shaders: shaders!["update"],
    kernels: &[KERNEL],
    tensors: &[
        Tensor::new(Axis::Gaussian, "geometry", plane::GEOMETRY as u32).kind(Kind::State),
        Tensor::with_words(Axis::Gaussian, "sh_rest", |sizes| {
            sizes.precision.sh.words(sh_planes(sizes.sh_degree))
        })
        .kind(Kind::State),
        Tensor::with_words(Axis::Gaussian, "geometry_moments", |sizes| {
            2 * sizes.precision.moments.words(plane::GEOMETRY as u32)
        })
        .kind(Kind::Moments)
        .unless(Bits::IMAGE_ONLY),
        Tensor::with_words(Axis::Gaussian, "sh_first", |sizes| {
            sizes.precision.moments.words(sh_planes(sizes.sh_degree))
        })
        .kind(Kind::Moments)
        .unless(Bits::IMAGE_ONLY),
        Tensor::with_words(Axis::Gaussian, "sh_second", |sizes| {
            sizes.precision.moments.words(sh_planes(sizes.sh_degree))
        })
        .kind(Kind::Moments)
        .unless(Bits::IMAGE_ONLY),
        Tensor::new(Axis::Gaussian, "stats", 2)
            .kind(Kind::State)
            .unless(Bits::IMAGE_ONLY),
    ],
    first: &[Bits::NONE],
    // All three parts. Slots in, with their first slots and Gaussians; their sums out and in, and the colour's clamp;
    // places in; parameters and moments in and out; statistics of the visible in and out.
    bytes: |load, precision| {
        let slot = u64::from(SLOT_FLOATS) * WORD;
        let state = 2 * precision.bytes_per_gaussian(load.sh_degree);
        load.instances * slot
            + load.gaussians * (WORD + state)
            + load.visible * (2 * WORD + 2 * slot + PIXEL + 2 * 2 * WORD)
    },
    unless: Bits::BATCH,
    ..Pass::new("update", |r| r.run(&KERNEL, UPDATE))
};
