//! Interface between training and engines.
//!
//! The interface is coarse, because a fused step spans rendering, loss and optimizer and must not wait for the host.
//! Schedules are part of training and arrive as numbers in the settings.
//!
//! - No method has a default: a new method is a compile error in every engine.
//! - Abilities that an engine may lack are traits of their own ([`crate::extensions`]).
//! - What follows from these methods is in [`crate::EngineExt`], which no engine can override.
//! - An engine that watches another is a listener of [`crate::Observed`], which alone forwards calls.

use crate::depth::ImageDerivative;
use crate::extensions::{Scoring, Sharing, Showing, Streaming, Tiling};
use crate::instruments::Instrumented;
use crate::{
    DensifyPlan, FeatureInput, GradientParts, Gradients, MemoryPlan, OptimizerState,
    RenderSettings, Rendered, Report, StepSettings, TrainView, ViewId,
};
use dapple_scene::{Camera, Result, Splats};
use serde::{Deserialize, Serialize};

/// Parts of an engine's state to copy to the host. An engine on a GPU reads only these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DownloadParts {
    /// The splats and the whole [`OptimizerState`].
    All,
    /// The splats.
    Splats,
    /// The splats and [`OptimizerState::filter_3d`].
    SplatsAndFilters,
    /// [`OptimizerState::views`].
    Views,
}

/// Engine: holds splats, their optimizer state and the training views, and executes steps, renders and densification.
///
/// The same engine, device, seed and calls give bit-identical splats. [`EngineExt`](crate::EngineExt) has further
/// methods for callers.
pub trait Engine: Send {
    /// Returns the name of the engine and of its device, for messages: "cpu (2 threads, AVX-512)".
    fn description(&self) -> String;

    /// Returns how many Gaussians fit the device in steps with these settings and in those that were requested so
    /// far, with a reserve for the instances of a usual step. [`RenderSettings::sh_degree`] is that of the Gaussians.
    /// `None` if only system memory is the limit.
    fn memory_plan(&self, settings: &StepSettings) -> Option<MemoryPlan>;

    /// Replaces the splats and the optimizer state.
    ///
    /// A batch whose last step is missing is dropped. If `state` is `None`, Adam's moments and the density statistics start at zero, and every view returns to the
    /// pose given to [`Self::add_views`].
    ///
    /// # Errors
    /// Array lengths that differ, an SH degree above 3, or a state of other splats: see [`crate::check_upload`].
    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()>;

    /// Waits for enqueued work and copies parts of the splats and the optimizer state to the host; other parts are
    /// empty.
    ///
    /// # Errors
    /// A lost device.
    fn download_parts(&mut self, parts: DownloadParts) -> Result<(Splats, OptimizerState)>;

    /// Adds views to train on; the ids are in the order of `views`.
    ///
    /// # Errors
    /// An invalid camera, or a photo whose size differs from its camera's.
    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>>;

    /// Passes the input of a feature to the engine.
    ///
    /// # Errors
    /// An unknown view, invalid numbers, or a loss for another device.
    fn set_input(&mut self, input: FeatureInput) -> Result<()>;

    /// Enqueues one training step and returns at once. An engine without a queue executes the step before it returns.
    /// The Gaussians move in the last step of a batch ([`StepSettings::batch`]).
    ///
    /// # Errors
    /// An unknown view, a missing photo or input, a step that is not the next of its batch, a lost device.
    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()>;

    /// Enqueues one densification round.
    ///
    /// # Errors
    /// A batch whose last step is missing, a lost device, or no memory for the new Gaussians.
    fn densify(&mut self, plan: &DensifyPlan) -> Result<()>;

    /// Waits until all enqueued work is done; [`Self::poll`] then returns all pending reports.
    ///
    /// # Errors
    /// A lost device, or no memory for the work.
    fn finish(&mut self) -> Result<()>;

    /// Returns the reports of the work that has finished since the last call, in order.
    ///
    /// # Errors
    /// A lost device, or no memory for the work.
    fn poll(&mut self) -> Result<Vec<Report>>;

    /// Renders the current splats, with depths and the surface if the settings request them.
    ///
    /// # Errors
    /// An invalid camera, no splats, a lost device.
    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered>;

    /// Renders from several cameras, and calls `each` with the index of the camera and the render, in order. An engine on a
    /// GPU renders the next view while `each` runs.
    ///
    /// # Errors
    /// See [`Self::render`]; the first error of `each`, after which nothing is rendered.
    fn render_each(
        &mut self,
        cameras: &[Camera],
        settings: &RenderSettings,
        each: &mut dyn FnMut(usize, Rendered) -> Result<()>,
    ) -> Result<()> {
        for (i, camera) in cameras.iter().enumerate() {
            each(i, self.render(camera, settings)?)?;
        }
        Ok(())
    }

    /// Returns the gradients of a scalar whose derivative by the rendered view is `derivative`. An engine on a GPU reads
    /// back only `parts`; other parts are empty or complete.
    ///
    /// # Errors
    /// See [`Self::render`]; also a derivative of another size.
    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
        parts: GradientParts,
    ) -> Result<Gradients<f32>>;

    /// Returns the engine as [`Streaming`]; `None` if it receives photos only all at once.
    fn streaming(&mut self) -> Option<&mut dyn Streaming>;

    /// Returns the engine as [`Sharing`]; `None` if one device holds all Gaussians.
    fn sharing(&mut self) -> Option<&mut dyn Sharing>;

    /// Returns the engine as [`Scoring`]; `None` if the host scores its renders.
    fn scoring(&mut self) -> Option<&mut dyn Scoring>;

    /// Returns the engine as [`Showing`]; `None` if the host converts its renders.
    fn showing(&mut self) -> Option<&mut dyn Showing>;

    /// Returns the engine as [`Tiling`]; `None` if it renders only whole images.
    fn tiling(&mut self) -> Option<&mut dyn Tiling>;

    /// Returns the engine as [`Instrumented`]; `None` if it measures nothing.
    fn instruments(&mut self) -> Option<&mut dyn Instrumented>;
}
