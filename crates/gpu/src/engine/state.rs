//! Uploads and downloads splats and all other state that a run needs to continue.

use super::GpuEngine;
use crate::passes::Bits;
use crate::stages::filter_3d::FILTER_3D;
use crate::stages::{appearance, appearance_mlp, photometric};
use crate::{layout, params};
use dapple_engine::{
    AppearanceGrids, AppearanceMlp, OptimizerState, Photometric, ViewState, check_upload,
    check_views,
};
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
        self.settle()?;
        if self.capacity.tiles == 0 {
            // Stages bind the image's buffers also where nothing is rendered.
            self.fit_tiles(1, 1)?;
        }
        let n = u32::try_from(splats.len())
            .map_err(|_| Error::input("more Gaussians than 32 bits count"))?;
        let capacity = n.max(self.options.first_capacity.gaussians).max(1);
        // If the state has filters, their buffer is allocated.
        self.buffers.remove(FILTER_3D);
        self.buffers.remove(appearance_mlp::FEATURES);
        self.buffers.remove(appearance_mlp::MOMENTS);
        let before = std::mem::replace(&mut self.sh_degree, splats.sh_degree);
        if let Err(error) = self.make_capacity(capacity) {
            self.sh_degree = before;
            return Err(error);
        }
        let has_filter_3d = state.is_some_and(|state| !state.filter_3d.is_empty());
        self.fit_filter_3d(has_filter_3d)?;
        params::upload(
            &self.context.gpu,
            &self.buffers,
            self.options.precision,
            self.capacity.gaussians as usize,
            splats,
            state,
        )?;
        let poses = state.map(|state| state.views.poses.clone());
        let poses = poses.unwrap_or_default();
        if self.views.poses.is_some() || !poses.is_empty() {
            self.views.poses = (!poses.is_empty()).then_some(poses);
            self.views_changed = true;
        }
        let gpu_state = layout::State {
            gaussians: n,
            capacity: self.capacity.gaussians,
            visible_capacity: self.capacity.visible,
            instance_capacity: self.capacity.instances,
            bucket_capacity: self.capacity.buckets,
            ..layout::State::default()
        };
        self.context
            .gpu
            .write(self.buffers.get("state")?, 0, &[gpu_state]);
        let grids = state.map(|state| &state.views.appearance);
        self.grids = match grids.filter(|grids| !grids.is_empty()) {
            Some(grids) => {
                self.check_grids(grids.cells, grids.views())?;
                Some(appearance::upload(&self.context, &mut self.buffers, grids)?)
            }
            None => None,
        };
        let models = state.map(|state| &state.views.photometric);
        self.photometric_views = match models.filter(|models| !models.is_empty()) {
            Some(models) => photometric::upload(&self.context, &mut self.buffers, models)?,
            None => 0,
        };
        let mlp = state.map(|state| &state.views.appearance_mlp);
        self.mlp_views = match mlp.filter(|mlp| !mlp.is_empty()) {
            Some(mlp) => {
                self.fit(Bits::MLP)?;
                let capacity = self.capacity.gaussians as usize;
                appearance_mlp::upload(&self.context, &mut self.buffers, mlp, capacity)?
            }
            None => 0,
        };
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

    /// Waits, and downloads the bilateral grids of all views.
    pub(crate) fn download_appearance(&mut self) -> Result<AppearanceGrids> {
        self.settle()?;
        let grids = self.grids.as_ref();
        grids.map_or_else(
            || Ok(AppearanceGrids::default()),
            |grids| appearance::download(&self.context, &self.buffers, grids),
        )
    }

    /// Waits, and downloads the photometric models of all views.
    pub(crate) fn download_photometric(&mut self) -> Result<Photometric> {
        self.settle()?;
        match self.photometric_views {
            0 => Ok(Photometric::default()),
            views => photometric::download(&self.context, &self.buffers, views),
        }
    }

    /// Waits, and downloads the state of the views that has changed.
    pub(super) fn download_views(&mut self) -> Result<ViewState> {
        self.settle()?;
        self.fetch_poses()?;
        let held = match self.mlp_views {
            0 => (0, 0),
            _ => (
                self.state()?.gaussians as usize,
                self.capacity.gaussians as usize,
            ),
        };
        Ok(ViewState {
            poses: self.views.poses.clone().unwrap_or_default(),
            appearance: self.download_appearance()?,
            photometric: self.download_photometric()?,
            appearance_mlp: match self.mlp_views {
                0 => AppearanceMlp::default(),
                views => appearance_mlp::download(&self.context, &self.buffers, views, held)?,
            },
            antialias: (),
            dropout: (),
            perceptual: (),
            depth: (),
            regularise: (),
            noise: (),
        })
    }

    /// Waits, and returns the counts on the GPU.
    pub(crate) fn state(&mut self) -> Result<layout::State> {
        let state: Vec<layout::State> = self.context.gpu.read(self.buffers.get("state")?, 1)?;
        state
            .first()
            .copied()
            .ok_or_else(|| Error::internal("the GPU's counts could not be read"))
    }
}
