//! Noise on centres: see [`crate::stages::noise`]. `update` draws it after Adam.

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::noise::NoiseStep;
use dapple_scene::Result;

/// Noise of a step.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let settings = step.settings;
        let gaussians = step.model.params.len;
        step.slots.after_adam = NoiseStep::new(settings, gaussians);
        Ok(())
    }
}
