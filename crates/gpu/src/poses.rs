//! Refined poses between host and GPU.
//!
//! 1. Before the first step with refinement nothing is allocated: cameras are uploaded once and stay.
//! 2. From then on the GPU's `views` hold the current poses, and `pose_moments` their moments. The host keeps a copy
//!    only to upload it again, when a run resumes or when views are added.

use crate::{GpuEngine, layout};
use dapple_engine::RefinedPose;
use dapple_scene::Result;

/// Floats of a view in `pose_moments`.
const MOMENTS: usize = 14;

impl GpuEngine {
    /// Allocates the buffers of a step with pose refinement.
    pub(crate) fn fit_poses(&mut self) -> Result<()> {
        if self.views.poses.is_none() {
            self.views.start_refining();
            self.write_moments()?;
        }
        Ok(())
    }

    /// Uploads the host's copy of the moments; the cameras go up with the views.
    pub(crate) fn write_moments(&mut self) -> Result<()> {
        let Some(poses) = &self.views.poses else {
            return Ok(());
        };
        let words: Vec<f32> = poses
            .iter()
            .flat_map(|pose| {
                let all = pose.first.iter().chain(&pose.second);
                all.chain(&pose.weights).copied().collect::<Vec<_>>()
            })
            .collect();
        let buffer = self.context.gpu.upload("pose_moments", &words)?;
        self.buffers.set("pose_moments", buffer);
        Ok(())
    }

    /// Updates the host's copy, once every command has reported; waits.
    pub(crate) fn fetch_poses(&mut self) -> Result<()> {
        let Some(count) = self.views.poses.as_ref().map(Vec::len) else {
            return Ok(());
        };
        if self.views_changed {
            // The GPU's data is older than the host's copy, or missing.
            return Ok(());
        }
        let gpu = &self.context.gpu;
        let views: Vec<layout::View> = gpu.read(self.buffers.get("views")?, count + 1)?;
        let moments: Vec<f32> = gpu.read(self.buffers.get("pose_moments")?, MOMENTS * count)?;
        let pose = |(view, moments): (&layout::View, &[f32])| RefinedPose {
            rotation: view.rows.map(|[x, y, z, _]| [x, y, z]),
            centre: [view.centre[0], view.centre[1], view.centre[2]],
            centre_rest: view.rows.map(|row| row[3]),
            first: std::array::from_fn(|k| moments[k]),
            second: std::array::from_fn(|k| moments[6 + k]),
            weights: [moments[12], moments[13]],
        };
        let both = views[1..].iter().zip(moments.chunks_exact(MOMENTS));
        self.views.poses = Some(both.map(pose).collect());
        Ok(())
    }
}
