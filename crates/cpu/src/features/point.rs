//! [`Feature`]: the points of a training step. [`Learnt`]: what training changes of the views.

use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::FeatureInput;
use dapple_scene::Result;

/// Points of a training step at which a feature acts.
pub trait Feature {
    /// Takes an input of this feature. Returns an input of another feature.
    ///
    /// # Errors
    /// An input that does not fit the views.
    fn set_input(&mut self, _views: &Views, input: FeatureInput) -> Result<Option<FeatureInput>> {
        Ok(Some(input))
    }

    /// Before the first stage: checks, cameras, filters, kernel slots.
    fn prepare(&mut self, _step: &mut StepContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before `project`.
    fn before_project(&mut self, _step: &mut StepContext<'_>) {}

    /// After `blend`, before `loss`.
    fn image(&mut self, _step: &mut StepContext<'_>) {}

    /// After the loss of the image: further terms and their gradients.
    fn image_loss(&mut self, _step: &mut StepContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Before `blend_backward`: the gradient by the rendered image.
    fn image_back(&mut self, _step: &mut StepContext<'_>) {}

    /// After `blend_backward`, before `update` changes the Gaussians.
    fn gradients(&mut self, _step: &mut StepContext<'_>) {}

    /// After `update`.
    fn after_update(&mut self, _step: &mut StepContext<'_>) {}
}

/// State of the views that training changes, in the form of checkpoints.
pub trait Learnt {
    /// The feature's `State` of [`dapple_engine::features`].
    type State: Default;

    /// Replaces the state; an empty state removes it.
    fn set_state(&mut self, _state: Self::State, _model: &mut Model, _views: &mut Views) {}

    /// Returns the state.
    fn state(&self, _model: &Model, _views: &Views) -> Self::State {
        Self::State::default()
    }
}
