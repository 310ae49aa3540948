//! Dropout: see [`dapple_engine::Dropout`]. `project` draws and scales.

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use dapple_engine::Dropout;
use dapple_scene::Result;

/// Dropout of a step.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let settings = step.settings;
        step.slots.part = step.model.part();
        step.slots.opacity = Dropout::new(settings.features.dropout, settings.seed, settings.step);
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
