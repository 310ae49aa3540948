//! Pose refinement, around `update`: see `shaders/pose_sums.wgsl` and `shaders/poses.wgsl`.

use super::blend_backward::EXTRA;
use super::project::{GAUSSIANS, OPTICS};
use super::shaders;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};

const POSE_SUM: Code =
    Code::new("pose_sums", "pose_sum").by(Bits::EXTRAS.with(EXTRA).with(OPTICS).with(Bits::MLP));
const POSES: Code = Code::new("poses", "poses");

/// The derivative by the camera's motion: after slots are summed, before parameters change.
pub static SUMS: Pass = Pass {
    shaders: shaders!["pose_sums"],
    kernels: &[POSE_SUM],
    needs: Bits::POSES,
    tensors: &[
        Tensor::new(Axis::GaussianGroup, "pose_sums", 6).when(Bits::POSES),
        Tensor::new(Axis::View, "pose_moments", 0),
    ],
    ..Pass::new("update", |r| r.run(&POSE_SUM, GAUSSIANS))
};

/// The step of the view's pose.
pub static PASS: Pass = Pass {
    shaders: shaders!["poses"],
    kernels: &[POSES],
    needs: Bits::POSES,
    ..Pass::new("update", |r: &mut Recorder<'_>| r.run(&POSES, Size::ONE))
};
