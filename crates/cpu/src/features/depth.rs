//! Loss by known depths: see [`kernels`].

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::views::Views;
use dapple_engine::{DepthSample, FeatureInput, LossTerm, ViewId, check_depths};
use dapple_scene::Result;
use std::sync::Arc;

/// Samples of known depth.
#[derive(Debug, Default)]
pub struct Held {
    /// Samples by view; views without samples may be absent.
    samples: Vec<Arc<[DepthSample]>>,
}

impl Held {
    fn of(&self, view: ViewId) -> &[DepthSample] {
        self.samples.get(view.0).map_or(&[], |samples| samples)
    }
}

impl Feature for Held {
    /// Replaces the samples of a view.
    fn set_input(&mut self, views: &Views, input: FeatureInput) -> Result<Option<FeatureInput>> {
        let FeatureInput::Depth(view, samples) = input else {
            return Ok(Some(input));
        };
        check_depths(&views.get(view)?.camera, &samples)?;
        if self.samples.len() <= view.0 {
            self.samples.resize(view.0 + 1, Arc::default());
        }
        self.samples[view.0] = samples.into();
        Ok(None)
    }

    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        step.mode.depths =
            step.settings.losses[LossTerm::Depth] > 0.0 && !self.of(step.view).is_empty();
        Ok(())
    }

    fn image_loss(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        if step.mode.depths {
            let weight = step.settings.losses[LossTerm::Depth];
            kernels::run(&step.camera, self.of(step.view), weight, step.frame);
        }
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
