//! Noise on centres: see [`kernels`]. `update` draws it after Adam.

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use dapple_scene::Result;
use kernels::NoiseStep;

/// Noise of a step.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let settings = step.settings;
        let part = step.model.part();
        step.slots.after_adam = NoiseStep::new(settings, part, step.model.active());
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
