//! 3D filters of anti-aliased runs: see [`crate::antialias`]. The filters are in [`Model`](crate::model::Model),
//! because renders read them too.

use super::point::{Feature, Learnt};
use crate::antialias::deviations;
use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::StepSettings;
use dapple_scene::Result;

/// Refresh of the 3D filters.
#[derive(Debug, Default)]
pub struct Held;

/// Sets the 3D filters, if the step requests it.
pub fn refresh(settings: &StepSettings, model: &mut Model, views: &Views) {
    let render = &settings.render;
    if render.antialias && settings.features.antialias.refresh {
        model.filter_3d = deviations(&model.params, &views.cameras(), render.near);
    }
}

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        refresh(step.settings, step.model, step.views);
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
