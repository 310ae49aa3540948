//! Loss terms over Gaussians: see [`crate::stages::regularisers`]. `update` adds their gradients.

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::regularisers::Regularisers;
use dapple_scene::Result;

/// Regularisers of a step.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.slots.gradient = Regularisers::new(&step.settings.losses, step.model.params.len);
        Ok(())
    }
}
