//! [`TrainFeature`]: the points of a run at which a feature acts.

use crate::TrainConfig;
use crate::config::AppearanceConfig;
use crate::evaluate::Lpips;
use crate::sky::Sky;
use dapple_device::BoxedEngine;
use dapple_engine::features::{StateTensor, ViewTensors};
use dapple_engine::{Extras, LossWeights, Rendered, ViewId};
use dapple_scene::{Camera, Dataset, Result};

/// A step, for the numbers of features.
pub(crate) struct At<'a> {
    /// Configuration of the step's segment.
    pub(crate) config: &'a TrainConfig,
    /// Number of the step.
    pub(crate) step: u32,
    /// Place of the step in the schedule.
    pub(crate) place: u32,
    /// Elapsed part of the schedule, 0 to 1.
    pub(crate) done: f64,
    /// Extent of the scene, world units.
    pub(crate) extent: f64,
    /// Dropout rate after amendments.
    pub(crate) dropout: f64,
    /// Additions of the density strategy.
    pub(crate) extras: Extras,
    /// Returns true if a round of density control precedes the step.
    pub(crate) follows_round: &'a dyn Fn() -> bool,
}

/// Step whose loss is weighed.
pub(crate) struct Weighing<'a> {
    /// Configuration of the step's segment.
    pub(crate) config: &'a TrainConfig,
    /// Number of the step.
    pub(crate) step: u32,
    /// Elapsed part of the schedule, 0 to 1.
    pub(crate) done: f64,
    /// Extent of the scene, world units.
    pub(crate) extent: f64,
}

/// Capture of a run, before the engine gets its photos.
pub(crate) struct Finding<'a> {
    /// Configuration of the run.
    pub(crate) config: &'a TrainConfig,
    /// Capture of the run.
    pub(crate) dataset: &'a Dataset,
    /// Indices of the training views in the capture.
    pub(crate) train: &'a [usize],
    /// Extent of the scene, world units.
    pub(crate) extent: f64,
    /// Sky of a run that learns it.
    pub(crate) sky: Option<&'a Sky>,
}

/// Input that was found; passes itself to the engine.
pub(crate) type Found = Box<dyn FnOnce(&mut HandOver<'_>) -> Result<()>>;

/// A run whose engine has its photos, and no splats.
pub(crate) struct HandOver<'a> {
    /// Engine of the run.
    pub(crate) engine: &'a mut BoxedEngine,
    /// Configuration of the run.
    pub(crate) config: &'a TrainConfig,
    /// The engine's views of the training photos, at full size.
    pub(crate) ids: &'a [ViewId],
    /// The engine's views of the training photos at half size; empty without such steps.
    pub(crate) coarse_ids: &'a [ViewId],
    /// Shortest edge of all photos that steps use, pixels.
    pub(crate) least_edge: u32,
    /// Weights of LPIPS.
    pub(crate) lpips: Option<&'a Lpips>,
    /// Notes for the user.
    pub(crate) notes: &'a mut Vec<String>,
}

/// Checkpoint whose state of the views is read.
pub(crate) struct Stored<'a> {
    /// Configuration of the run.
    pub(crate) config: &'a TrainConfig,
    /// True after the first step.
    pub(crate) has_steps: bool,
    /// Number of refined poses.
    pub(crate) poses: usize,
    /// Returns the length of the first axis of a tensor.
    pub(crate) rows: &'a dyn Fn(&str) -> Result<usize>,
}

/// Sizes of a feature's state.
pub(crate) type SizesOf<F> = <<F as TrainFeature>::State as ViewTensors>::Sizes;

/// Points of a run at which a feature acts.
pub(crate) trait TrainFeature {
    /// Numbers of a step.
    type Step: Default;

    /// State of the views that training changes.
    type State: ViewTensors;

    /// Returns the numbers of a step.
    fn step(at: &At<'_>) -> Self::Step;

    /// Sets the weights of the feature's terms in the loss of a step.
    fn weigh(_of: &Weighing<'_>, _weights: &mut LossWeights) {}

    /// Refuses contradictions in the configuration.
    ///
    /// # Errors
    /// The first contradiction, named by its key.
    fn validate(_config: &TrainConfig) -> Result<()> {
        Ok(())
    }

    /// Finds the input of the feature in the capture, before slow work.
    ///
    /// # Errors
    /// An input that the capture lacks.
    fn find(_of: &Finding<'_>) -> Result<Option<Found>> {
        Ok(None)
    }

    /// Passes an input that needs no search to the engine.
    ///
    /// # Errors
    /// An input that the capture or the engine lacks.
    fn hand_over(_to: &mut HandOver<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns true if checkpoints have a state of each photo.
    fn learns(_config: &TrainConfig, _has_steps: bool) -> bool {
        false
    }

    /// Returns the sizes of the state in a checkpoint.
    ///
    /// # Errors
    /// A tensor that the checkpoint lacks.
    fn sizes(_of: &Stored<'_>) -> Result<SizesOf<Self>> {
        Ok(Default::default())
    }

    /// Returns the number of photos in a state, of features that learn something of each photo.
    fn photos(_sizes: &SizesOf<Self>) -> usize {
        0
    }

    /// Returns the tensors of the state that `appearance.safetensors` contains.
    fn result(_state: &Self::State) -> Vec<StateTensor<'_>> {
        Vec::new()
    }

    /// Returns the numbers of a step that changes only the appearance of its photo. `rate` multiplies the step size.
    fn fit(_appearance: &AppearanceConfig, _rate: f64) -> Self::Step {
        Self::Step::default()
    }

    /// Applies the learned correction of a view's photo to a render of the view.
    fn correct(_state: &Self::State, _view: usize, _camera: &Camera, _rendered: &mut Rendered) {}
}
