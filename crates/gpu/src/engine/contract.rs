//! Implements the engine contract for [`GpuEngine`], by calls of the other files in this folder.

use super::{Command, GpuEngine};
use dapple_engine::{
    BlendCounts, BlendGradients, CropLoss, DensifyPlan, DepthSample, Engine, Gradients,
    ImageDerivative, OptimizerState, RenderSettings, Rendered, RenderedBytes, Report, ScoreAsks,
    ScoredView, StepSettings, TrainView, ViewId, ViewState,
};
use dapple_scene::{Camera, Photo, Result, Splats};
use std::any::Any;
use std::sync::Arc;

impl Engine for GpuEngine {
    fn description(&self) -> String {
        format!("gpu ({})", self.context.gpu.device_name())
    }

    fn device_handle(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.context.gpu.clone()))
    }

    fn most_gaussians(&self, sh_degree: u8) -> Option<usize> {
        Some(self.comfortable_gaussians(sh_degree))
    }

    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        self.upload_state(splats, state)
    }

    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        self.download_state()
    }

    fn splats(&mut self) -> Result<Splats> {
        self.download_splats()
    }

    fn fused_splats(&mut self) -> Result<Splats> {
        self.download_fused()
    }

    fn view_state(&mut self) -> Result<ViewState> {
        self.download_views()
    }

    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.settle()?;
        self.fetch_poses()?;
        let views = views.into_iter();
        let ids = views
            .map(|view| self.add_view(&view.camera, Some(view.photo)))
            .collect();
        self.fit_views(ids)
    }

    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        self.settle()?;
        self.fetch_poses()?;
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

    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        self.set_depths(view, samples)
    }

    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        self.set_crops(loss)
    }

    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        self.picture(camera, settings)
    }

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

    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        self.scored(camera, settings, photo, asks)
    }

    fn finish(&mut self) -> Result<()> {
        self.settle()
    }

    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        self.enqueue(Command::Step(view, *settings))
    }

    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.enqueue(Command::Densify(*plan))
    }

    fn poll(&mut self) -> Result<Vec<Report>> {
        self.take_reports()
    }

    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>> {
        self.differentiate_picture(camera, settings, derivative)
    }

    fn blend_gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
    ) -> Result<BlendGradients> {
        self.blend_gradients_of_picture(camera, settings, dl_drgb)
    }
}
