//! Noise on centres: see [`crate::stages::extras`]. `update` draws it after Adam.

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::extras::ExtrasStep;
use dapple_scene::Result;

/// Noise of a step.
#[derive(Debug, Default)]
pub struct Noise;

impl Feature for Noise {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let settings = step.settings;
        let gaussians = step.model.params.len;
        step.slots.after_adam = ExtrasStep::new(&settings.extras, settings.step, gaussians);
        Ok(())
    }
}
