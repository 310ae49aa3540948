//! Uploads and downloads splats and all other state that a run needs to continue.

use super::GpuEngine;
use crate::features::bits_of_state;
use crate::{layout, params};
use dapple_engine::{OptimizerState, ViewState, check_upload, check_views};
use dapple_runtime::wgpu;
use dapple_scene::{Error, Result, Splats};

impl GpuEngine {
    /// Replaces everything that training changes.
    pub(super) fn upload_state(
        &mut self,
        splats: &Splats,
        state: Option<&OptimizerState>,
    ) -> Result<()> {
        check_upload(splats, state)?;
        check_views(state, self.views.len())?;
        self.kept.clear();
        self.batch.clear();
        self.others = 0;
        self.frozen = state.map_or(0, |state| state.frozen);
        self.sky = state.map_or(0, |state| state.sky);
        self.settle()?;
        if self.capacity.tiles == 0 {
            // Stages bind the image's buffers also where nothing is rendered.
            self.fit_tiles(1, 1)?;
        }
        let n = u32::try_from(splats.len())
            .map_err(|_| Error::input("more Gaussians than 32 bits count"))?;
        let capacity = n.max(self.options.first_capacity.gaussians).max(1);
        // The buffers of features that the state has are allocated again.
        let declared = self.context.declared.state();
        for tensor in declared.filter(|tensor| !tensor.is_always()) {
            self.buffers.remove(tensor.name);
        }
        let before = std::mem::replace(&mut self.sh_degree, splats.sh_degree);
        if let Err(error) = self.make_capacity(capacity) {
            self.sh_degree = before;
            return Err(error);
        }
        if let Some(state) = state {
            self.fit(bits_of_state(state))?;
        }
        params::upload(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.capacity.gaussians as usize,
            splats,
            state,
        )?;
        let gpu_state = layout::State {
            gaussians: n,
            capacity: self.capacity.gaussians,
            visible_capacity: self.capacity.visible,
            instance_capacity: self.capacity.instances,
            bucket_capacity: self.capacity.buckets,
            // Not more than the Gaussians: checked.
            kept: (self.frozen + self.sky) as u32,
            sky: self.sky as u32,
            ..layout::State::default()
        };
        self.context
            .gpu
            .write(self.buffers.get("state")?, 0, &[gpu_state]);
        let (features, mut at) = self.features();
        match state {
            Some(state) => features.upload(&mut at, &state.views)?,
            None => features.upload(&mut at, &ViewState::default())?,
        }
        self.context.gpu.check()
    }

    /// Waits, and downloads everything that training changes.
    pub(super) fn download_state(&mut self) -> Result<(Splats, OptimizerState)> {
        self.settle()?;
        if self.capacity.gaussians == 0 {
            return Ok(<(Splats, OptimizerState)>::default());
        }
        let n = self.state()?.gaussians as usize;
        let (splats, mut state) = params::download(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.capacity.gaussians as usize,
            n,
            self.sh_degree,
        )?;
        state.frozen = self.frozen;
        state.sky = self.sky;
        state.views = self.download_views()?;
        Ok((splats, state))
    }

    /// Waits, and downloads the splats.
    pub(super) fn download_splats(&mut self) -> Result<Splats> {
        self.settle()?;
        if self.capacity.gaussians == 0 {
            return Ok(Splats::default());
        }
        let n = self.state()?.gaussians as usize;
        params::download_splats(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.capacity.gaussians as usize,
            n,
            self.sh_degree,
        )
    }

    /// Downloads the 3D filters of the first `n` Gaussians; empty if there are none.
    pub(super) fn download_filters(&self, n: usize) -> Result<Vec<f32>> {
        params::download_filter_3d(&self.context.gpu, &self.buffers, n)
    }

    /// Waits, and downloads the state of the views that has changed.
    pub(super) fn download_views(&mut self) -> Result<ViewState> {
        self.settle()?;
        let (features, mut at) = self.features();
        features.download(&mut at)
    }

    /// Waits, and updates the host's copies of what features change, before views are added.
    pub(super) fn fetch_views(&mut self) -> Result<()> {
        self.settle()?;
        let (features, mut at) = self.features();
        features.fetch(&mut at)
    }

    /// Waits, and returns the counts on the GPU.
    pub(crate) fn state(&mut self) -> Result<layout::State> {
        let encoder = self.context.gpu.encoder();
        self.state_after(encoder)
    }

    /// Submits commands, waits, and returns the counts after them.
    pub(super) fn state_after(
        &mut self,
        mut encoder: wgpu::CommandEncoder,
    ) -> Result<layout::State> {
        let (gpu, buffer) = (&self.context.gpu, self.buffers.get("state")?);
        let mut state = gpu.begin_read::<layout::State>(&mut encoder, buffer, 0, 1)?;
        state.submitted(gpu.submit(encoder));
        only(state.wait()?)
    }
}

/// Returns the counts that were read.
pub(super) fn only(states: Vec<layout::State>) -> Result<layout::State> {
    let first = states.into_iter().next();
    first.ok_or_else(|| Error::internal("the GPU's counts could not be read"))
}
