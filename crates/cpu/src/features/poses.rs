//! Pose refinement: see [`crate::stages::poses`]. The poses are in [`Views`](crate::views::Views).

use super::point::Feature;
use crate::context::StepContext;
use crate::stages::{poses, update};
use dapple_engine::Stage;

/// Pose refinement of a step.
#[derive(Debug, Default)]
pub struct Held {
    gradient: Option<[f64; 6]>,
}

impl Feature for Held {
    fn gradients(&mut self, step: &mut StepContext<'_>) {
        let is_on = !step.settings.features.poses.are_off();
        self.gradient = is_on.then(|| {
            update::pose_gradient_of_all(
                step.slots.shown(step.model),
                step.model.filters(step.settings.render.antialias),
                &step.camera,
                step.sh_degree,
                step.mode.depths,
                step.frame,
            )
        });
    }

    fn after_update(&mut self, step: &mut StepContext<'_>) {
        if let Some(gradient) = self.gradient.take()
            && let Some(pose) = step.views.pose_mut(step.view)
        {
            poses::step(
                pose,
                &gradient,
                &step.settings.features.poses,
                &step.settings.adam,
            );
            step.clock.lap(Stage::Update);
        }
    }
}
