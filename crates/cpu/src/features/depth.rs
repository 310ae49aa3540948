//! Loss by known depths: see [`crate::stages::depth`].

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::depth;
use dapple_engine::{DepthSample, LossTerm, ViewId};
use dapple_scene::Result;
use std::sync::Arc;

/// Samples of known depth.
#[derive(Debug, Default)]
pub struct Held {
    /// Samples by view; views without samples may be absent.
    samples: Vec<Arc<[DepthSample]>>,
}

impl Held {
    /// Sets the samples of a view.
    pub fn set(&mut self, view: ViewId, samples: Vec<DepthSample>) {
        if self.samples.len() <= view.0 {
            self.samples.resize(view.0 + 1, Arc::default());
        }
        self.samples[view.0] = samples.into();
    }

    fn of(&self, view: ViewId) -> &[DepthSample] {
        self.samples.get(view.0).map_or(&[], |samples| samples)
    }
}

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.mode.depths =
            step.settings.losses[LossTerm::Depth] > 0.0 && !self.of(step.view).is_empty();
        Ok(())
    }

    fn image_loss(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        if step.mode.depths {
            let weight = step.settings.losses[LossTerm::Depth];
            depth::run(&step.camera, self.of(step.view), weight, step.frame);
        }
        Ok(())
    }
}
