//! Implementation of the [`Engine`](dapple_engine::Engine) trait for [`CpuEngine`], with checks of
//! the inputs and outputs.

use super::{Clock, CpuEngine, HeldView, no_view, on_pool};
use crate::antialias;
use crate::blocks::{Blocks, DensityStats};
use crate::frame::CameraF32;
use crate::simd::level_name;
use crate::stages::blend::BlendExtra;
use crate::stages::blend_backward::Mode;
use crate::stages::{blend_backward, densify, update};
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
        let n = splats.len();
        let (first, second, stats) = match state {
            None => (
                Blocks::zeros(n, splats.sh_degree),
                Blocks::zeros(n, splats.sh_degree),
                DensityStats {
                    gradient_sums: vec![0.0; n],
                    visible_counts: vec![0.0; n],
                },
            ),
            Some(state) => (
                Blocks::from_splats(&state.first_moments),
                Blocks::from_splats(&state.second_moments),
                DensityStats {
                    gradient_sums: state.gradient_sums.clone(),
                    visible_counts: state.visible_counts.clone(),
                },
            ),
        };
        self.params = Blocks::from_splats(splats);
        self.first = first;
        self.second = second;
        self.stats = stats;
        self.filter_3d = state.map_or(Vec::new(), |state| antialias::rows(&state.filter_3d));
        let views = state.map(|state| state.views.clone()).unwrap_or_default();
        (self.poses, self.appearance, self.appearance_mlp) =
            (views.poses, views.appearance, views.appearance_mlp);
        self.take_features();
        self.sh_degree = splats.sh_degree;
        Ok(())
    }

    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        let degree = self.sh_degree;
        let state = OptimizerState {
            first_moments: self.first.to_splats(degree),
            second_moments: self.second.to_splats(degree),
            gradient_sums: self.stats.gradient_sums.clone(),
            visible_counts: self.stats.visible_counts.clone(),
            filter_3d: antialias::values(&self.filter_3d, self.params.len),
            views: self.view_state()?,
        };
        Ok((self.params.to_splats(degree), state))
    }

    fn view_state(&mut self) -> Result<ViewState> {
        Ok(ViewState {
            poses: self.poses.clone(),
            appearance: self.appearance.clone(),
            appearance_mlp: self.mlp_with_features(),
        })
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        let mut ids = Vec::with_capacity(views.len());
        for view in views {
            let camera = CameraF32::new(&view.camera)?;
            check_photo(&camera, &view.photo)?;
            ids.push(ViewId(self.views.len()));
            self.hold(HeldView {
                camera,
                photo: Some(view.photo),
                comes_each_step: false,
            });
            self.depths.push(Arc::default());
        }
        Ok(ids)
    }

    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        let mut ids = Vec::with_capacity(cameras.len());
        for camera in cameras {
            ids.push(ViewId(self.views.len()));
            self.hold(HeldView {
                camera: CameraF32::new(camera)?,
                photo: None,
                comes_each_step: true,
            });
            self.depths.push(Arc::default());
        }
        Ok(ids)
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        let held = self.views.get_mut(view.0).ok_or_else(|| no_view(view))?;
        check_photo(&held.camera, &photo)?;
        held.photo = Some(photo);
        Ok(())
    }

    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        let held = self.views.get(view.0).ok_or_else(|| no_view(view))?;
        check_depths(&held.camera, &samples)?;
        self.depths[view.0] = samples.into();
        Ok(())
    }

    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        if loss.as_ref().is_some_and(|loss| loss.routine().is_some()) {
            return Err(Error::internal("a loss of crops that is made for a GPU"));
        }
        self.crop_loss = loss;
        Ok(())
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        on_pool(self, |engine| {
            let beside = BlendExtra::depths(settings.depth);
            engine.forward(false, &camera, settings, None, beside, &mut Clock::start());
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
            engine.forward(
                false,
                &camera,
                settings,
                None,
                BlendExtra::Nothing,
                &mut Clock::start(),
            );
        });
        Ok(self.image_bytes(&camera))
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let camera = CameraF32::new(camera)?.with_near(settings.near);
        on_pool(self, |engine| {
            engine.forward(
                false,
                &camera,
                settings,
                None,
                BlendExtra::Counts,
                &mut Clock::start(),
            );
        });
        Ok(self.blended(&camera))
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        on_pool(self, |engine| engine.train_step(view, settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        let state = densify::State {
            params: &mut self.params,
            first: &mut self.first,
            second: &mut self.second,
            stats: &mut self.stats,
            filter_3d: &mut self.filter_3d,
        };
        let report = densify::run(plan, state);
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
            let beside = BlendExtra::depths(mode.depths);
            engine.forward(false, &camera, settings, None, beside, &mut Clock::start());
            engine.set_image_gradient(&camera, derivative)?;
            let cap = settings.max_gaussians_per_tile;
            blend_backward::run(&camera, cap, mode, &mut engine.frame);
            let degree = settings.sh_degree.min(engine.sh_degree);
            let filter_3d = engine.filter_3d.as_slice();
            Ok(update::run_gradients(
                &engine.params,
                settings.antialias.then_some(filter_3d),
                &camera,
                degree,
                mode.depths,
                &engine.frame,
            ))
        })
    }
}
