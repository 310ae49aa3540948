//! Normal consistency ([`dapple_engine::features::normals`]), and its weight.

use super::point::{At, TrainFeature, Weighing};
use dapple_engine::features::normals;
use dapple_engine::{LossTerm, LossWeights};

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = normals::Step;
    type State = normals::State;

    fn step(_at: &At<'_>) -> Self::Step {}

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        let surface = &of.config.surface;
        let is_on = surface.enabled && of.done >= surface.start;
        if is_on && of.step.is_multiple_of(surface.every) {
            weights[LossTerm::Normals] = (surface.normals * f64::from(surface.every)) as f32;
        }
    }
}
