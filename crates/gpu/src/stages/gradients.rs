//! `gradients`: `update` without a step; writes the gradients out instead. See
//! `shaders/gradients.wgsl`.

use super::blend_backward::EXTRA;
use super::project::{GAUSSIANS, OPTICS};
use super::shaders;
use crate::layout::{plane, sh_planes};
use crate::passes::{Axis, Bits, Code, Pass, Tensor};

/// `[14, capacity]`.
pub const GEOMETRY: &str = "gradient_geometry";
/// `[(K - 1) * 3, capacity]`.
pub const SH: &str = "gradient_sh";
/// `[2, capacity]`; with [`Bits::ABSOLUTE`] `[4, capacity]`.
pub const MEANS2D: &str = "gradient_means2d";
/// Six floats for every 256 Gaussians.
pub const POSE: &str = "gradient_pose";

const KERNEL: Code = Code::new("gradients", "gradients").by(EXTRA.with(OPTICS));

/// The pass after `blend_backward` if gradients are requested.
pub static PASS: Pass = Pass {
    shaders: shaders!["gradients"],
    kernels: &[KERNEL],
    tensors: &[
        Tensor::new(Axis::Gaussian, GEOMETRY, plane::GEOMETRY as u32).when(Bits::GRADIENTS),
        Tensor::with_words(Axis::Gaussian, SH, |sizes| sh_planes(sizes.sh_degree))
            .when(Bits::GRADIENTS),
        Tensor::with_words(Axis::Gaussian, MEANS2D, |sizes| {
            2 + 2 * u32::from(sizes.asked.has(Bits::ABSOLUTE))
        })
        .when(Bits::GRADIENTS),
        Tensor::new(Axis::GaussianGroup, POSE, 6).when(Bits::GRADIENTS),
    ],
    ..Pass::new("gradients", |r| r.run(&KERNEL, GAUSSIANS))
};
