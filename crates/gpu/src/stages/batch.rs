//! Batches of several steps ([`dapple_engine::Batch`]): each step adds its gradients to sums, and the last moves the
//! Gaussians by their mean. See `shaders/gradients.wgsl` and `shaders/update.wgsl`.

use super::blend_backward::EXTRA;
use super::gradients::{GEOMETRY, SH};
use super::project::{GAUSSIANS, OPTICS, UPDATE};
use super::update::OF_FEATURES;
use crate::layout::{plane, sh_planes};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};

/// `[14, capacity]`.
const GEOMETRY_SUMS: &str = "batch_geometry";
/// `[(K - 1) * 3, capacity]`.
const SH_SUMS: &str = "batch_sh";

const ADD: Code =
    Code::new("gradients", "gradients").by(EXTRA.with(OPTICS).with(OF_FEATURES).with(Bits::BATCH));
const MOVE: Code = Code::new("update", "update").by(Bits::EXTRAS.with(Bits::BATCH));

/// Every step of a batch, instead of `update`: adds the gradients of visible Gaussians to the sums, and with
/// [`crate::layout::FLAG_DENSITY`] to `stats`.
pub static SUMS: Pass = Pass {
    kernels: &[ADD],
    needs: Bits::BATCH,
    tensors: &[
        Tensor::new(Axis::Gaussian, GEOMETRY_SUMS, plane::GEOMETRY as u32).when(Bits::BATCH),
        Tensor::with_words(Axis::Gaussian, SH_SUMS, |sizes| sh_planes(sizes.sh_degree))
            .when(Bits::BATCH),
    ],
    borrows: &[(GEOMETRY, GEOMETRY_SUMS), (SH, SH_SUMS)],
    ..Pass::new("update", |r| r.run(&ADD, GAUSSIANS))
};

/// The last step of a batch: moves the Gaussians.
pub static UPDATE_PASS: Pass = Pass {
    kernels: &[MOVE],
    needs: Bits::BATCH,
    unless: Bits::BATCH_OPEN,
    borrows: &[(GEOMETRY, GEOMETRY_SUMS), (SH, SH_SUMS)],
    ..Pass::new("update", |r| r.run(&MOVE, UPDATE))
};
