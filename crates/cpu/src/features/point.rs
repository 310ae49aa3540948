//! [`Feature`]: the points of a training step.

use crate::context::StepContext;
use dapple_scene::Result;

/// Points of a training step at which a feature acts.
pub trait Feature {
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
