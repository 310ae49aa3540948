//! Implements the engine contract for [`GpuEngine`], by calls of the other files in this folder.

use super::{Command, GpuEngine};
use dapple_engine::instruments::Instrumented;
use dapple_engine::{
    BlendCounts, Contributors, DensifyPlan, DownloadParts, Engine, FeatureInput, GradientParts,
    Gradients, ImageDerivative, MemoryPlan, OptimizerState, RenderSettings, Rendered,
    RenderedBytes, Report, ScoreAsks, ScoredView, Scoring, Sharing, Showing, StepSettings,
    Streaming, Tiling, TrainView, ViewId,
};
use dapple_scene::{Camera, Photo, Result, Splats};
use std::sync::Arc;

impl Engine for GpuEngine {
    fn description(&self) -> String {
        format!("gpu ({})", self.context.gpu.device_name())
    }

    fn memory_plan(&self, settings: &StepSettings) -> Option<MemoryPlan> {
        Some(self.plan_memory(settings))
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        self.upload_state(splats, state)
    }

    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)> {
        let state = OptimizerState::default();
        Ok(match parts {
            DownloadParts::All => self.download_state()?,
            DownloadParts::Splats => (self.download_splats()?, state),
            DownloadParts::SplatsAndFilters => {
                let splats = self.download_splats()?;
                let filter_3d = self.download_filters(splats.len())?;
                (splats, OptimizerState { filter_3d, ..state })
            }
            DownloadParts::Views => {
                let views = self.download_views()?;
                (Splats::default(), OptimizerState { views, ..state })
            }
        })
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.fetch_views()?;
        let views = views.into_iter();
        let ids = views
            .map(|view| self.add_view(&view.camera, Some(view.photo)))
            .collect();
        self.fit_views(ids)
    }

    fn set_input(&mut self, input: FeatureInput) -> Result<()> {
        // Commands that are submitted again need the inputs with which they were enqueued.
        self.settle()?;
        let (features, mut context) = self.features();
        features.set_input(&mut context, input)?;
        self.drop_stale();
        Ok(())
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        self.picture(camera, settings)
    }

    fn render_each(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        each: &mut dyn FnMut(usize, Rendered) -> Result<()>,
    ) -> Result<()> {
        self.pictures(cameras, settings, each)
    }

    fn finish(&mut self) -> Result<()> {
        self.settle()
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        self.batch.step(settings.batch)?;
        self.enqueue(Command::Step(view, Box::new(*settings)))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.batch.refuse("a densification round")?;
        self.enqueue(Command::Densify(Box::new(*plan), self.batch.size()))
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        self.take_reports()
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
        parts: GradientParts,
    ) -> Result<Gradients<f32>> {
        let absolute = parts == GradientParts::AllAndAbsolute;
        let gaussians = self.submit_derivative(camera, settings, derivative, absolute)?;
        match parts {
            GradientParts::All => self.read_gradients(gaussians),
            GradientParts::AllAndAbsolute => self.read_all_gradients(gaussians),
            GradientParts::Blend => self.read_blend_gradients(gaussians),
        }
    }

    fn streaming(&mut self) -> Option<&mut dyn Streaming> {
        Some(self)
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }

    fn scoring(&mut self) -> Option<&mut dyn Scoring> {
        Some(self)
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

impl Streaming for GpuEngine {
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.fetch_views()?;
        let cameras = cameras.iter();
        let ids = cameras.map(|camera| self.add_view(camera, None)).collect();
        self.fit_views(ids)
    }

    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        self.photos.put(view.0, photo)
    }

    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        let pending = self.pending_from();
        let gpu = &self.context.gpu;
        self.photos.announce(gpu, view.0, photo, pending)
    }
}

impl Scoring for GpuEngine {
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        self.scored(camera, settings, photo, asks)
    }
}

impl Showing for GpuEngine {
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        self.bytes(camera, settings)
    }

    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        self.counted(camera, settings)
    }

    fn contributors(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        most: usize,
    ) -> Result<Contributors> {
        self.contributors_of(camera, settings, most)
    }
}
