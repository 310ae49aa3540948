//! Loss terms over Gaussians: see [`kernels`]. `update` adds their gradients.

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use dapple_scene::Result;
use kernels::Regularisers;

/// Regularisers of a step.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let total = step.model.part().total;
        step.slots.gradient = Regularisers::new(step.settings, total);
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
