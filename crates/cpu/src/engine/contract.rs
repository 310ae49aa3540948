//! Implementation of the [`Engine`](dapple_engine::Engine) trait for [`CpuEngine`], with checks of
//! the inputs and outputs.

use super::{CpuEngine, on_pool};
use crate::antialias;
use crate::frame::CameraF32;
use crate::model::Model;
use crate::simd::level_name;
use crate::stages::blend::BlendExtra;
use crate::stages::blend_backward::Mode;
use crate::stages::{blend_backward, densify, update};
use crate::views::HeldView;
use dapple_engine::{
    BlendCounts, CropLoss, DensifyPlan, DepthSample, Engine, Gradients, ImageDerivative,
    OptimizerState, RenderSettings, Rendered, RenderedBytes, Report, StepSettings, TrainView,
    ViewId, ViewState, check_depths, check_photo, check_upload, check_views,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::sync::Arc;

impl Engine for CpuEngine {
    fn description(&self) -> String {
        let threads = self.pool.current_num_threads();
        let plural = if threads == 1 { "" } else { "s" };
        format!("cpu ({threads} thread{plural}, {})", level_name())
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        check_upload(splats, state)?;
        check_views(state, self.views.len())?;
        self.model = Model::new(splats, state);
        let views = state.map(|state| state.views.clone()).unwrap_or_default();
        self.views.poses = views.poses;
        self.features.appearance.held = views.appearance;
        self.features.photometric.held = views.photometric;
        self.features
            .appearance_mlp
            .set(views.appearance_mlp, &mut self.model);
        Ok(())
    }

    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        let model = &self.model;
        let degree = model.sh_degree;
        let state = OptimizerState {
            first_moments: model.first.to_splats(degree),
            second_moments: model.second.to_splats(degree),
            gradient_sums: model.stats.gradient_sums.clone(),
            visible_counts: model.stats.visible_counts.clone(),
            filter_3d: antialias::values(&model.filter_3d, model.params.len),
            views: self.view_state()?,
        };
        Ok((self.model.params.to_splats(degree), state))
    }

    fn view_state(&mut self) -> Result<ViewState> {
        Ok(ViewState {
            poses: self.views.poses.clone(),
            appearance: self.features.appearance.held.clone(),
            photometric: self.features.photometric.held.clone(),
            appearance_mlp: self.features.appearance_mlp.get(&self.model),
        })
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        let mut ids = Vec::with_capacity(views.len());
        for view in views {
            let camera = CameraF32::new(&view.camera)?;
            check_photo(&camera, &view.photo)?;
            ids.push(self.views.add(HeldView {
                camera,
                photo: Some(view.photo),
                comes_each_step: false,
            }));
        }
        Ok(ids)
    }

    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        let mut ids = Vec::with_capacity(cameras.len());
        for camera in cameras {
            ids.push(self.views.add(HeldView {
                camera: CameraF32::new(camera)?,
                photo: None,
                comes_each_step: true,
            }));
        }
        Ok(ids)
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        let held = self.views.get_mut(view)?;
        check_photo(&held.camera, &photo)?;
        held.photo = Some(photo);
        Ok(())
    }

    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        check_depths(&self.views.get(view)?.camera, &samples)?;
        self.features.depth.set(view, samples);
        Ok(())
    }

    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        if loss.as_ref().is_some_and(|loss| loss.routine().is_some()) {
            return Err(Error::internal("a loss of crops that is made for a GPU"));
        }
        self.features.perceptual.loss = loss;
        Ok(())
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::depths(settings.depth));
            if settings.surface {
                engine.find_surface(&camera, settings);
            }
        });
        Ok(Rendered {
            surface: settings.surface.then(|| self.surface(&camera)),
            ..self.image(&camera, settings.depth)
        })
    }

    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::Nothing);
        });
        Ok(self.image_bytes(&camera))
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::Counts);
        });
        Ok(self.blended(&camera))
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        on_pool(self, |engine| engine.train_step(view, settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        let report = densify::run(plan, &mut self.model);
        self.reports.push(Report::Densify(report));
        Ok(())
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        Ok(std::mem::take(&mut self.reports))
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        let mode = Mode {
            absolute: false,
            depths: derivative.depth.is_some(),
        };
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::depths(mode.depths));
            engine.set_image_gradient(&camera, derivative)?;
            let cap = settings.max_gaussians_per_tile;
            blend_backward::run(&camera, cap, mode, &mut engine.frame);
            let model = &engine.model;
            Ok(update::run_gradients(
                &model.params,
                model.filters(settings.antialias),
                &camera,
                settings.sh_degree.min(model.sh_degree),
                mode.depths,
                &engine.frame,
            ))
        })
    }
}
