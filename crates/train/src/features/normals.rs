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
        weights[LossTerm::Normals] = of.config.densify.flat_reg as f32 * 0.0;
    }
}
