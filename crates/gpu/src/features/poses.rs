//! Pose refinement, around `update`: see `shaders/pose_sums.wgsl` and `shaders/poses.wgsl`.
//!
//! 1. Before the first step with refinement nothing is allocated: cameras are uploaded once and stay.
//! 2. From then on the GPU's `views` hold the current poses, and `pose_moments` their moments. The host keeps a copy
//!    (`Views::poses`) only to upload it again, when a run resumes or when views are added.

use super::point::{Feature, FeatureContext, Point};
use crate::layout;
use crate::passes::{Axis, Bits, Code, Pass, Tensor};
use crate::recorder::{Recorder, Size};
use crate::shared_struct::shared_struct;
use crate::stages::blend_backward::EXTRA;
use crate::stages::project::{GAUSSIANS, OPTICS};
use crate::stages::shaders;
use crate::stages::update::OF_FEATURES;
use dapple_engine::{RefinedPose, StepSettings, ViewId};
use dapple_scene::Result;

/// Floats of a view in `pose_moments`.
const MOMENTS: usize = 14;

const POSE_SUM: Code =
    Code::new("pose_sums", "pose_sum").by(Bits::EXTRAS.with(EXTRA).with(OPTICS).with(OF_FEATURES));
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

/// Pose refinement. The host's copy of the poses is in `Views`, which make entries of cameras from it.
#[derive(Debug, Default)]
pub struct Held;

shared_struct! {
    /// Numbers of a step.
    pub struct Immediates {
        /// Step size of the view's rotation, radians.
        rate_turn: f32,
        /// Step size of the view's translation, world units.
        rate_shift: f32,
    }
}

impl Feature for Held {
    type State = Vec<RefinedPose>;
    type Immediates = Immediates;
    type Parameters = ();
    const PASSES: &'static [(Point, &'static Pass)] =
        &[(Point::Gradients, &SUMS), (Point::AfterUpdate, &PASS)];

    fn immediates(settings: &StepSettings) -> Immediates {
        Immediates {
            rate_turn: settings.features.poses.rotation,
            rate_shift: settings.features.poses.translation,
        }
    }

    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(!settings.features.poses.are_off(), Bits::POSES)
    }

    /// Allocates the moments before the first step that refines a pose.
    fn prepare(
        &mut self,
        at: &mut FeatureContext<'_>,
        _view: ViewId,
        settings: &StepSettings,
    ) -> Result<()> {
        if !settings.features.poses.are_off() && at.views.poses.is_none() {
            at.views.start_refining();
            self.cameras_written(at)?;
        }
        Ok(())
    }

    /// Updates the host's copy.
    fn fetch(&mut self, at: &mut FeatureContext<'_>) -> Result<()> {
        let Some(count) = at.views.poses.as_ref().map(Vec::len) else {
            return Ok(());
        };
        if *at.views_changed {
            // The GPU's data is older than the host's copy, or missing.
            return Ok(());
        }
        let gpu = &at.context.gpu;
        let views: Vec<layout::View> = gpu.read(at.buffers.get("views")?, count + 1)?;
        let moments: Vec<f32> = gpu.read(at.buffers.get("pose_moments")?, MOMENTS * count)?;
        let pose = |(view, moments): (&layout::View, &[f32])| RefinedPose {
            rotation: view.rows.map(|[x, y, z, _]| [x, y, z]),
            centre: [view.centre[0], view.centre[1], view.centre[2]],
            centre_rest: view.rows.map(|row| row[3]),
            first: std::array::from_fn(|k| moments[k]),
            second: std::array::from_fn(|k| moments[6 + k]),
            weights: [moments[12], moments[13]],
        };
        let both = views[1..].iter().zip(moments.chunks_exact(MOMENTS));
        at.views.poses = Some(both.map(pose).collect());
        Ok(())
    }

    /// Uploads the host's copy of the moments; the cameras were uploaded with the views.
    fn cameras_written(&mut self, at: &mut FeatureContext<'_>) -> Result<()> {
        let Some(poses) = &at.views.poses else {
            return Ok(());
        };
        let words: Vec<f32> = poses
            .iter()
            .flat_map(|pose| {
                let all = pose.first.iter().chain(&pose.second);
                all.chain(&pose.weights).copied().collect::<Vec<_>>()
            })
            .collect();
        let buffer = at.context.gpu.upload("pose_moments", &words)?;
        at.buffers.set("pose_moments", buffer);
        Ok(())
    }

    fn upload(&mut self, at: &mut FeatureContext<'_>, poses: &Vec<RefinedPose>) -> Result<()> {
        if at.views.poses.is_some() || !poses.is_empty() {
            at.views.poses = (!poses.is_empty()).then(|| poses.clone());
            *at.views_changed = true;
        }
        Ok(())
    }

    fn download(&mut self, at: &mut FeatureContext<'_>) -> Result<Vec<RefinedPose>> {
        self.fetch(at)?;
        Ok(at.views.poses.clone().unwrap_or_default())
    }
}
