//! [`Feature`]: what a feature adds to the engine. [`Point`]: where its passes run.

use crate::layout::State;
use crate::passes::{Bits, Pass};
use crate::shared_struct::Shared;
use crate::views::Views;
use crate::{Buffers, Context};
use dapple_engine::{FeatureInput, OptimizerState, StepSettings, ViewId};
use dapple_runtime::Defines;
use dapple_scene::{Error, Result};

/// Places of features in the plans, in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before a step that requests it: [`Feature::runs_before`].
    BeforeStep,
    /// After `blend`, before `loss`.
    Image,
    /// After `loss`: terms that compare the image with the photo, and their gradients.
    ImageLoss,
    /// After [`Self::ImageLoss`]: the gradient by the rendered image. The features are in reverse order.
    ImageBack,
    /// After [`Self::ImageBack`]: terms of the rendered image, and their gradients.
    RenderLoss,
    /// After slots are summed, before `update` changes the Gaussians.
    Gradients,
    /// After `update`.
    AfterUpdate,
}

/// Parts of the engine that a feature may change while no command is encoded.
#[derive(Debug)]
pub struct FeatureContext<'a> {
    /// The device, and its kernels.
    pub context: &'a mut Context,
    /// All buffers.
    pub buffers: &'a mut Buffers,
    /// All views.
    pub views: &'a mut Views,
    /// True if the GPU does not have all cameras yet.
    pub views_changed: &'a mut bool,
    /// Capacity of the planes in Gaussians.
    pub capacity: usize,
    /// Largest size of a buffer, bytes.
    pub most_bytes: u64,
}

impl FeatureContext<'_> {
    /// Waits, and returns the number of Gaussians.
    ///
    /// # Errors
    /// A lost device.
    pub fn gaussians(&self) -> Result<usize> {
        let state: Vec<State> = self.context.gpu.read(self.buffers.get("state")?, 1)?;
        let first = state.first();
        first
            .map(|state| state.gaussians as usize)
            .ok_or_else(|| Error::internal("the GPU's counts could not be read"))
    }
}

/// Passes, numbers and state that a feature adds to the engine. Everything has a default that adds nothing.
pub trait Feature: Default {
    /// State that training changes: the feature's `State` of [`dapple_engine::features`].
    type State: Default;

    /// Numbers of a step that are sent as immediates: few bytes, for features without other kernels of their own.
    type Immediates: Shared + Default;

    /// Numbers of a step that are sent as [`crate::layout::Parameters`].
    type Parameters: Shared + Default;

    /// Passes with their places in the plans.
    const PASSES: &'static [(Point, &'static Pass)] = &[];

    /// Adds constants of the shaders.
    fn define(defines: Defines) -> Defines {
        defines
    }

    /// Returns the immediates of a step.
    fn immediates(_settings: &StepSettings) -> Self::Immediates {
        Self::Immediates::default()
    }

    /// Returns the parameters of a step on a view.
    ///
    /// # Errors
    /// A step that the feature refuses.
    fn parameters(
        &self,
        _views: &Views,
        _view: ViewId,
        _settings: &StepSettings,
    ) -> Result<Self::Parameters> {
        Ok(Self::Parameters::default())
    }

    /// Returns the bits of a step on a view.
    fn bits(&self, _view: ViewId, _settings: &StepSettings) -> Bits {
        Bits::NONE
    }

    /// Returns the bits whose buffers a state fills.
    fn bits_of_state(_state: &OptimizerState) -> Bits {
        Bits::NONE
    }

    /// Returns true if a step needs the passes at [`Point::BeforeStep`].
    fn runs_before(_settings: &StepSettings) -> bool {
        false
    }

    /// Returns true if [`Self::prepare`] reads what earlier steps have written: the engine then waits for them.
    fn reads_back(&self, _views: &Views, _settings: &StepSettings) -> bool {
        false
    }

    /// Prepares a step before it is encoded: checks, state of new views, constants of kernels.
    ///
    /// # Errors
    /// A step that the feature refuses; no memory.
    fn prepare(
        &mut self,
        _at: &mut FeatureContext<'_>,
        _view: ViewId,
        _settings: &StepSettings,
    ) -> Result<()> {
        Ok(())
    }

    /// Takes an input of this feature; no command is in flight. Returns an input of another feature.
    ///
    /// # Errors
    /// An input that does not fit the views, or the device.
    fn set_input(
        &mut self,
        _at: &mut FeatureContext<'_>,
        input: FeatureInput,
    ) -> Result<Option<FeatureInput>> {
        Ok(Some(input))
    }

    /// Sets the buffers of the step's photo slot. `slot` has its number, and true if slots change their photos.
    ///
    /// # Errors
    /// No memory.
    fn fill_slot(
        &mut self,
        _context: &Context,
        _buffers: &mut Buffers,
        _view: ViewId,
        _settings: &StepSettings,
        _slot: (usize, bool),
    ) -> Result<()> {
        Ok(())
    }

    /// Releases the buffers of photo slots.
    fn release_slots(&mut self) {}

    /// Returns the bytes on the GPU that are not in [`Buffers`].
    fn resident_bytes(&self) -> u64 {
        0
    }

    /// Updates the host's copies before views are added; no command is in flight.
    ///
    /// # Errors
    /// A lost device.
    fn fetch(&mut self, _at: &mut FeatureContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Uploads what accompanies the cameras, after all cameras were uploaded.
    ///
    /// # Errors
    /// No memory.
    fn cameras_written(&mut self, _at: &mut FeatureContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Replaces the state; an empty state removes it. The buffers of [`Self::bits_of_state`] exist.
    ///
    /// # Errors
    /// No memory, or more than a binding can hold.
    fn upload(&mut self, _at: &mut FeatureContext<'_>, _state: &Self::State) -> Result<()> {
        Ok(())
    }

    /// Waits, and returns the state; no command is in flight.
    ///
    /// # Errors
    /// A lost device, no memory for the copies.
    fn download(&mut self, _at: &mut FeatureContext<'_>) -> Result<Self::State> {
        Ok(Self::State::default())
    }
}
