//! The seam between training and engines.
//!
//! It is coarse on purpose: a fused step crosses rendering, loss and optimizer, and nothing in it
//! may wait for the host. Schedules live in training and arrive as numbers in the settings.

use crate::depth::{DepthImage, DepthSample, ImageDerivative};
use crate::score::to_byte;
use crate::{
    BlendCounts, CropLoss, DensifyPlan, Gradients, RenderSettings, RenderedBytes, Report,
    ScoreAsks, ScoredView, StepCounts, StepSettings, ViewState,
};
use dapple_scene::{Camera, Error, Photo, Result, Splats};
use std::any::Any;
use std::sync::Arc;

/// A photograph to train on, with its camera.
#[derive(Debug, Clone)]
pub struct TrainView {
    /// Camera of the photo's size; its lens may distort.
    pub camera: Camera,
    /// The pixels. Where it has alpha, the target is the photo over the step's background; where
    /// it has a mask, masked pixels count neither in the loss nor in its gradient.
    pub photo: Arc<Photo>,
}

/// Names a view that an engine holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub usize);

/// Everything beside the splats that a run needs to continue bit for bit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimizerState {
    /// Adam's first moments, shaped like the splats.
    pub first_moments: Splats,
    /// Adam's second moments, shaped like the splats.
    pub second_moments: Splats,
    /// Sum of screen-space gradient norms since the last density round, `[N]`.
    pub gradient_sums: Vec<f32>,
    /// Steps in which each Gaussian was visible since the last density round, `[N]`.
    pub visible_counts: Vec<f32>,
    /// Standard deviation of each Gaussian's 3D smoothing filter, world units, `[N]`; empty where no
    /// step or render was anti-aliased. See [`crate::smoothing`].
    pub smoothing: Vec<f32>,
    /// What training changes of the engine's views.
    pub views: ViewState,
}

impl OptimizerState {
    /// Of splats that no step has moved, with views as they are given.
    pub fn untrained(splats: &Splats, views: ViewState) -> Self {
        let n = splats.len();
        let zeros = || crate::groups::zeros(n, splats.sh_degree);
        Self {
            first_moments: zeros(),
            second_moments: zeros(),
            gradient_sums: vec![0.0; n],
            visible_counts: vec![0.0; n],
            smoothing: Vec::new(),
            views,
        }
    }
}

/// A rendered view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Colours over the background, not clamped, `[height, width, 3]`.
    pub rgb: Vec<f32>,
    /// One minus the remaining transmittance, `[height, width]`.
    pub alpha: Vec<f32>,
    /// Depths, where [`RenderSettings::depth`] asked for them.
    pub depth: Option<DepthImage>,
    /// What was rendered.
    pub counts: StepCounts,
}

impl Rendered {
    /// The colours as bytes, each clamped and rounded.
    pub fn photo(&self) -> Photo {
        let bytes = self.rgb.iter().map(|&value| to_byte(value)).collect();
        Photo::from_rgb(self.width, self.height, bytes)
    }
}

/// An engine holds splats, their optimizer state and the views to train on, and does the work.
///
/// The same engine, device, seed and calls give bit-identical splats.
pub trait Engine: Send {
    /// The engine and the device it runs on, for people: "cpu (2 threads, AVX-512)".
    fn description(&self) -> String;

    /// How many Gaussians of this SH degree fit the device with room to spare for what steps make of them;
    /// `None` where only the system's memory bounds them.
    fn most_gaussians(&self, sh_degree: u8) -> Option<usize> {
        let _ = sh_degree;
        None
    }

    /// A handle to the device that it computes on, for those who know its type and have work of their own for it: the
    /// runtime's `Gpu` of an engine on a GPU. `None` where only the processor computes. Holding it holds the device.
    fn device_handle(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Replaces the splats. Without a state, moments and statistics start at zero, and views stand
    /// where they were given.
    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()>;

    /// Waits for enqueued work and copies splats and optimizer state out.
    fn download(&mut self) -> Result<(Splats, OptimizerState)>;

    /// Waits for enqueued work and copies the splats alone out.
    fn splats(&mut self) -> Result<Splats> {
        Ok(self.download()?.0)
    }

    /// Waits for enqueued work and copies what it has changed of the views alone out: refined poses, learnt
    /// appearances.
    fn view_state(&mut self) -> Result<ViewState> {
        Ok(self.download()?.1.views)
    }

    /// As [`Self::splats`], with the 3D smoothing filters in scales and opacities, as files hold them:
    /// see [`crate::smoothing`].
    fn fused_splats(&mut self) -> Result<Splats> {
        let (mut splats, state) = self.download()?;
        crate::smoothing::fuse(&mut splats, &state.smoothing);
        Ok(splats)
    }

    /// Hands over photographs to train on; the ids follow the order given.
    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>>;

    /// As [`Self::add_views`], of views whose photos come one by one, by [`Self::put_photo`].
    ///
    /// # Errors
    /// A camera that is no sound pinhole; an engine that has no way to do so.
    fn add_cameras(&mut self, cameras: &[Camera]) -> Result<Vec<ViewId>> {
        let _ = cameras;
        Err(photos_at_once())
    }

    /// Hands over the photo of a view of [`Self::add_cameras`] for its next step; always the same photo.
    /// The engine lets go of it as soon as it can. Returns at once, unless more photos are on their way to
    /// the device than it was told to hold.
    ///
    /// # Errors
    /// No such view, a photo of another size than its camera; an engine that has no way to do so.
    fn put_photo(&mut self, view: ViewId, photo: Arc<Photo>) -> Result<()> {
        let _ = (view, photo);
        Err(photos_at_once())
    }

    /// Says that a step on `view` comes soon, and gives its photo if it is one of [`Self::add_cameras`]:
    /// an engine may bring it to its device meanwhile. Changes nothing else; the step may still not come,
    /// and its photo is handed over before it all the same.
    ///
    /// # Errors
    /// No such view, a photo of another size than its camera.
    fn announce(&mut self, view: ViewId, photo: Option<Arc<Photo>>) -> Result<()> {
        let _ = (view, photo);
        Ok(())
    }

    /// Tells which depths a view is known to have, in place of what was told before: by ascending
    /// pixel, none twice. Steps use them whose weight of [`crate::LossTerm::Depth`] is not 0.
    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()>;

    /// Sets the loss of crops, made for this engine's device, that steps use whose weight of
    /// [`crate::LossTerm::Perceptual`] is not 0; `None` takes it away. See [`crate::crops`].
    ///
    /// # Errors
    /// It is made for another device; an engine that has no way to do so.
    fn set_crop_loss(&mut self, loss: Option<Box<dyn CropLoss>>) -> Result<()> {
        match loss {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("this engine compares no crops")),
        }
    }

    /// Renders the current splats.
    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered>;

    /// Renders the current splats to bytes, for eyes: those of [`Self::render`], see [`crate::shown`]. Depths are
    /// not rendered, whatever the settings say. The default rounds on the host; an engine elsewhere rounds where
    /// the picture is.
    ///
    /// # Errors
    /// As [`Self::render`].
    fn render_bytes(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
    ) -> Result<RenderedBytes> {
        let settings = RenderSettings {
            depth: false,
            ..*settings
        };
        Ok((&self.render(camera, &settings)?).into())
    }

    /// How many Gaussians each pixel of a render blends: see [`crate::shown`].
    ///
    /// # Errors
    /// As [`Self::render`]; an engine that has no way to do so.
    fn blend_counts(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<BlendCounts> {
        let _ = (camera, settings);
        Err(Error::unsupported(
            "this engine does not count what pixels blend",
        ))
    }

    /// Renders the current splats and compares them with a photo of the camera's size, where both are: see
    /// [`crate::score`]. `None` where the engine has no way to do so, or not for this photo (its mask hides
    /// every pixel, or every window of SSIM): then the host scores what [`Self::render`] gives.
    ///
    /// # Errors
    /// As [`Self::render`].
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

    /// Enqueues one training step and returns at once (or does it, on an engine without a queue).
    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()>;

    /// Enqueues one round of density control.
    fn densify(&mut self, plan: &DensifyPlan) -> Result<()>;

    /// Waits until everything enqueued is done; [`Self::poll`] then returns all there is to report.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// What has finished since the last call, in order.
    fn poll(&mut self) -> Result<Vec<Report>>;

    /// Gradients of a scalar whose derivative with respect to the rendered view is `derivative`.
    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>>;

    /// [`Self::differentiate`] for a scalar that does not look at depths: its derivative with respect
    /// to the rendered image is `dl_drgb` (`[height, width, 3]`) and to its alpha `dl_dalpha`
    /// (`[height, width]`, if any).
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
}

fn photos_at_once() -> Error {
    Error::unsupported("this engine takes photos only all at once")
        .hint("load the capture without a limit of memory for photos")
}
