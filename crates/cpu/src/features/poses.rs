//! Pose refinement: see [`kernels`]. The poses are in [`Views`](crate::views::Views).

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::context::StepContext;
use crate::model::Model;
use crate::stages::update;
use crate::views::Views;
use dapple_engine::{RefinedPose, Stage};

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
                step.mode,
                step.frame,
            )
        });
    }

    fn after_update(&mut self, step: &mut StepContext<'_>) {
        if let Some(gradient) = self.gradient.take()
            && let Some(pose) = step.views.pose_mut(step.view)
        {
            kernels::step(
                pose,
                &gradient,
                &step.settings.features.poses,
                &step.settings.adam,
            );
            step.clock.lap(Stage::Update);
        }
    }
}

impl Learnt for Held {
    type State = Vec<RefinedPose>;

    fn set_state(&mut self, state: Self::State, _model: &mut Model, views: &mut Views) {
        views.poses = state;
    }

    fn state(&self, _model: &Model, views: &Views) -> Self::State {
        views.poses.clone()
    }
}
