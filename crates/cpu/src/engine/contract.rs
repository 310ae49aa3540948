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
use dapple_engine::instruments::Instrumented;
use dapple_engine::{
    BlendCounts, Contributors, DensifyPlan, DownloadParts, Engine, FeatureInput, GradientParts,
    Gradients, ImageDerivative, MemoryPlan, OptimizerState, RenderSettings, Rendered,
    RenderedBytes, Report, Scoring, Sharing, Showing, StepSettings, Streaming, TileMask, Tiling,
    TrainView, ViewId, check_photo, check_upload, check_views,
};
use dapple_scene::{Camera, Photo, Result, Splats};
use std::sync::Arc;

impl Engine for CpuEngine {
    fn description(&self) -> String {
        let threads = self.pool.current_num_threads();
        let plural = if threads == 1 { "" } else { "s" };
        format!("cpu ({threads} thread{plural}, {})", level_name())
    }

    fn memory_plan(&self, _settings: &StepSettings) -> Option<MemoryPlan> {
        None
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        check_upload(splats, state)?;
        check_views(state, self.views.len())?;
        self.batch.clear();
        self.model = Model::new(splats, state);
        let views = state.map(|state| state.views.clone()).unwrap_or_default();
        self.features
            .set_state(views, &mut self.model, &mut self.views);
        Ok(())
    }

    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)> {
        let model = &self.model;
        let degree = model.sh_degree;
        let splats = || model.params.to_splats(degree);
        let filter_3d = || antialias::values(&model.filter_3d, model.params.len);
        Ok(match parts {
            DownloadParts::All => (
                splats(),
                OptimizerState {
                    first_moments: model.first.to_splats(degree),
                    second_moments: model.second.to_splats(degree),
                    gradient_sums: model.stats.gradient_sums.clone(),
                    visible_counts: model.stats.visible_counts.clone(),
                    filter_3d: filter_3d(),
                    frozen: model.frozen,
                    sky: model.sky,
                    views: self.features.state(model, &self.views),
                },
            ),
            DownloadParts::Splats => (splats(), OptimizerState::default()),
            DownloadParts::SplatsAndFilters => (
                splats(),
                OptimizerState {
                    filter_3d: filter_3d(),
                    ..OptimizerState::default()
                },
            ),
            DownloadParts::Views => (
                Splats::default(),
                OptimizerState {
                    views: self.features.state(model, &self.views),
                    ..OptimizerState::default()
                },
            ),
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

    fn set_input(&mut self, input: FeatureInput) -> Result<()> {
        self.features.set_input(&self.views, input)
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        let camera = self.camera(camera, settings)?;
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

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        on_pool(self, |engine| engine.train_step(view, settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.batch.refuse("a densification round")?;
        let report = densify::run(plan, &mut self.model);
        self.reports.push(Report::Densify(report));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
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
        parts: GradientParts,
    ) -> Result<Gradients<f32>> {
        let camera = self.camera(camera, settings)?;
        let mode = Mode {
            absolute: parts == GradientParts::AllAndAbsolute,
            depths: derivative.depth.is_some(),
            ..Mode::default()
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
                mode,
                &engine.frame,
            ))
        })
    }
    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        Some(self)
    }

    /// The host scores renders of this engine: both are on the CPU.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        None
    }

    fn showing(&mut self) -> Option<&mut dyn Showing> {
        Some(self)
    }

    fn tiling(&mut self) -> Option<&mut dyn Tiling> {
        Some(self)
    }

    fn instruments(&mut self) -> Option<&mut dyn Instrumented> {
        Some(self)
    }
}

impl Streaming for CpuEngine {
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

    /// Does nothing: there is no transfer.
    fn announce(&mut self, _view: ViewId, _photo: Option<Arc<Photo>>) -> Result<()> {
        Ok(())
    }
}

impl Showing for CpuEngine {
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        let camera = self.camera(camera, settings)?;
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::Nothing);
        });
        Ok(self.image_bytes(&camera))
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let camera = self.camera(camera, settings)?;
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::Counts);
        });
        Ok(self.blended(&camera))
    }

    fn contributors(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors> {
        Contributors::check(most)?;
        let camera = self.camera(camera, settings)?;
        on_pool(self, |engine| {
            engine.forward(&camera, settings, BlendExtra::Nothing);
            engine.find_contributors(&camera, settings, most);
        });
        Ok(self.contributors_of(&camera, most))
    }
}

impl Tiling for CpuEngine {
    fn choose_tiles(&mut self, tiles: Option<TileMask>) {
        self.tiles = tiles;
    }
}
