//! Interface between training and engines.
//!
//! The interface is coarse, because a fused step spans rendering, loss and optimizer and must not wait for the host.
//! Schedules are part of training and arrive as numbers in the settings.

use crate::depth::{DepthSample, ImageDerivative};
use crate::{
    BlendCounts, BlendGradients, CropLoss, DensifyPlan, Gradients, OptimizerState, RenderSettings,
    Rendered, RenderedBytes, Report, ScoreAsks, ScoredView, StepSettings, ViewState,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::any::Any;
use std::sync::Arc;

/// Photo to train on, with its camera.
#[derive(Debug, Clone)]
pub struct TrainView {
    /// Camera with the size of the photo; its lens may distort.
    pub camera: Camera,
    /// Pixels of the photo. With alpha, the target is the photo over the step's background. Pixels that a mask hides
    /// are excluded from the loss and from its gradient.
    pub photo: Arc<Photo>,
}

/// Index of a view of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub usize);

/// Engine: holds splats, their optimizer state and the training views, and executes steps, renders and densification.
///
/// The same engine, device, seed and calls give bit-identical splats.
pub trait Engine: Send {
    /// Returns the name of the engine and of its device, for messages: "cpu (2 threads, AVX-512)".
    fn description(&self) -> String;

    /// Returns the most Gaussians of this SH degree that fit the device, with a reserve for the instances of a usual
    /// step. `None` if only system memory is the limit.
    fn most_gaussians(&self, sh_degree: u8) -> Option<usize> {
        let _ = sh_degree;
        None
    }

    /// Returns a handle to the engine's device, for callers that know its type and submit work of their own. For an
    /// engine on a GPU it is the runtime's `Gpu`; `None` if the engine computes on the CPU. The handle keeps the
    /// device open.
    fn device_handle(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Replaces the splats and the optimizer state.
    ///
    /// If `state` is `None`, Adam's moments and the density statistics start at zero, and every view returns to the
    /// pose given to [`Self::add_views`].
    ///
    /// # Errors
    /// Array lengths that differ, an SH degree above 3, or a state of other splats: see [`crate::check_upload`].
    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()>;

    /// Waits for enqueued work and copies the splats and the optimizer state to the host.
    fn download(&mut self) -> Result<(Splats, OptimizerState)>;

    /// Waits for enqueued work and copies only the splats to the host.
    fn splats(&mut self) -> Result<Splats> {
        Ok(self.download()?.0)
    }

    /// Waits for enqueued work and copies only the state of the views to the host: refined poses and appearance.
    fn view_state(&mut self) -> Result<ViewState> {
        Ok(self.download()?.1.views)
    }

    /// Does the same as [`Self::splats`] and bakes the 3D filters into scales and opacities, as splat files store
    /// them. See [`crate::filter_3d`].
    fn fused_splats(&mut self) -> Result<Splats> {
        let (mut splats, state) = self.download()?;
        crate::filter_3d::bake(&mut splats, &state.filter_3d);
        Ok(splats)
    }

    /// Adds views to train on; the ids are in the order of `views`.
    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>>;

    /// Adds views without photos. [`Self::put_photo`] delivers each photo later; [`Self::add_views`] adds views with
    /// photos.
    ///
    /// # Errors
    /// An invalid camera, or an engine that cannot receive photos one by one.
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        let _ = cameras;
        Err(photos_at_once())
    }

    /// Delivers the photo of a view of [`Self::add_cameras`] for its next step; every call for a view passes the same
    /// photo. The engine drops the photo as soon as it can. Returns at once, unless more photos are in flight to the
    /// device than the engine may hold.
    ///
    /// # Errors
    /// An unknown view, a photo whose size differs from its camera's, or an engine that cannot receive photos one by
    /// one.
    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        let _ = (view, photo);
        Err(photos_at_once())
    }

    /// Announces a step on `view`, with its photo if the view is one of [`Self::add_cameras`]. An engine may start
    /// the transfer of the photo to its device. No result depends on this call. The step need not follow, and its
    /// photo must still be delivered before the step.
    ///
    /// # Errors
    /// An unknown view, or a photo whose size differs from its camera's.
    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        let _ = (view, photo);
        Ok(())
    }

    /// Replaces the known depths of a view. `samples` are in ascending order of pixel, at most one per pixel. Steps
    /// whose weight of [`crate::LossTerm::Depth`] is not 0 compare with them.
    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()>;

    /// Sets the loss over crops, created for this engine's device; `None` removes it. Steps whose weight of
    /// [`crate::LossTerm::Perceptual`] is not 0 evaluate it. See [`crate::crops`].
    ///
    /// # Errors
    /// A loss for another device, or an engine without losses over crops.
    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        match loss {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("this engine compares no crops")),
        }
    }

    /// Renders the current splats, with depths and the surface if the settings request them.
    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered>;

    /// Renders the current splats to 8 bits per channel, with the values of [`crate::shown`]. Depths and
    /// surfaces are not rendered, whatever the settings. The default implementation rounds the result of
    /// [`Self::render`] on the host; an engine on a GPU rounds on the GPU.
    ///
    /// # Errors
    /// See [`Self::render`].
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        let settings = RenderSettings {
            depth: false,
            surface: false,
            ..*settings
        };
        Ok((&self.render(camera, &settings)?).into())
    }

    /// Counts the Gaussians that each pixel of a render blends: see [`crate::shown`].
    ///
    /// # Errors
    /// See [`Self::render`]; also an engine that does not count.
    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let _ = (camera, settings);
        Err(Error::unsupported(
            "this engine does not count what pixels blend",
        ))
    }

    /// Renders the current splats and compares the render with a photo of the camera's size, on the device: see
    /// [`crate::score`]. `None` if the engine cannot score, or cannot score this photo (its mask hides every pixel or
    /// every window of SSIM). The host then scores the result of [`Self::render`].
    ///
    /// # Errors
    /// See [`Self::render`].
    fn score(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        let _ = (camera, settings, photo, asks);
        Ok(None)
    }

    /// Enqueues one training step and returns at once. An engine without a queue executes the step before it returns.
    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()>;

    /// Enqueues one densification round.
    fn densify(&mut self, plan: &DensifyPlan) -> Result<()>;

    /// Waits until all enqueued work is done; [`Self::poll`] then returns all pending reports.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the reports of the work that has finished since the last call, in order.
    fn poll(&mut self) -> Result<Vec<Report>>;

    /// Returns the gradients of a scalar whose derivative by the rendered view is `derivative`.
    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>>;

    /// Returns the gradients of a scalar that does not depend on depths: see [`Self::differentiate`]. `dl_drgb` is
    /// its derivative by the rendered image (`[height, width, 3]`), `dl_dalpha` by the image's alpha
    /// (`[height, width]`, optional).
    fn gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
        dl_dalpha: Option<&[f32]>,
    ) -> Result<Gradients<f32>> {
        let derivative = ImageDerivative {
            rgb: dl_drgb,
            alpha: dl_dalpha,
            depth: None,
        };
        self.differentiate(camera, settings, &derivative)
    }

    /// Returns the gradients by opacities and `sh0` alone, equal to those of [`Self::gradients`] without a derivative
    /// by alpha. An engine on a GPU reads 4 numbers of each Gaussian back, not 59.
    fn blend_gradients(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        dl_drgb: &[f32],
    ) -> Result<BlendGradients> {
        Ok(self.gradients(camera, settings, dl_drgb, None)?.into())
    }
}

fn photos_at_once() -> Error {
    Error::unsupported("this engine takes photos only all at once")
        .hint("load the capture without a limit of memory for photos")
}
