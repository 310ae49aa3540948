//! Photometric models of photos and cameras: see [`kernels`].

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::Stage;
use dapple_engine::features::photometric::{self, Photometric};
use dapple_scene::Result;

/// Photometric models of a run.
#[derive(Debug, Default)]
pub struct Held {
    /// Numbers of all views and cameras, with Adam's moments.
    held: Photometric,
    /// Model of the step's view.
    model: Option<photometric::Model>,
}

impl Feature for Held {
    /// Makes sure that every view has a model.
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        self.model = None;
        step.settings.features.check()?;
        if step.settings.features.photometric.is_some() {
            if self.held.views() < step.views.len() {
                self.held.extend_to(step.views.unrefined());
            }
            self.model = self.held.model(step.view.0);
        }
        Ok(())
    }

    fn image(&mut self, step: &mut StepContext<'_>) {
        if let Some(model) = &self.model {
            kernels::run(&step.camera, model, step.frame);
            step.clock.lap(Stage::Appearance);
            // `loss` reads `image`.
            std::mem::swap(&mut step.frame.image, &mut step.frame.corrected);
        }
    }

    fn image_back(&mut self, step: &mut StepContext<'_>) {
        if let (Some(model), Some(learnt)) =
            (self.model.take(), &step.settings.features.photometric)
        {
            std::mem::swap(&mut step.frame.image, &mut step.frame.corrected);
            let gradient = kernels::backward(&step.camera, &model, step.frame);
            let adam = &step.settings.adam;
            kernels::step(&mut self.held, step.view.0, &gradient, learnt, adam);
            step.clock.lap(Stage::Appearance);
        }
    }
}

impl Learnt for Held {
    type State = Photometric;

    fn set_state(&mut self, state: Photometric, _model: &mut Model, _views: &mut Views) {
        self.held = state;
    }

    fn state(&self, _model: &Model, _views: &Views) -> Photometric {
        self.held.clone()
    }
}
