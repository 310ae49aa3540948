//! Dropout: see [`dapple_engine::Dropout`]. `project` draws and scales.

use super::point::Feature;
use crate::context::StepContext;
use dapple_engine::Dropout;
use dapple_scene::Result;

/// Dropout of a step.
#[derive(Debug, Default)]
pub struct DropGaussians;

impl Feature for DropGaussians {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.slots.opacity = Dropout::from_settings(step.settings);
        Ok(())
    }
}
