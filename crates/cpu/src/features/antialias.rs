//! 3D filters of anti-aliased runs: see [`crate::antialias`]. The filters are in [`Model`](crate::model::Model),
//! because renders read them too.

use super::point::{Feature, Learnt};
use crate::antialias::deviations;
use crate::context::StepContext;
use dapple_scene::Result;

/// Refresh of the 3D filters.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        let render = &step.settings.render;
        if render.antialias && step.settings.features.antialias.refresh {
            step.model.filter_3d =
                deviations(&step.model.params, &step.views.cameras(), render.near);
        }
        Ok(())
    }
}

impl Learnt for Held {
    type State = ();
}
