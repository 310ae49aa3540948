//! Loss terms over Gaussians ([`dapple_engine::features::regularise`]), and their weights.

use super::point::{At, TrainFeature, Weighing};
use crate::strategy::in_extents;
use dapple_engine::features::regularise;
use dapple_engine::{LossTerm, LossWeights};

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = regularise::Step;
    type State = regularise::State;

    fn step(at: &At<'_>) -> Self::Step {
        regularise::Step {
            moved_only: !at.config.densify.regularise_unseen,
        }
    }

    fn weigh(of: &Weighing<'_>, weights: &mut LossWeights) {
        let densify = &of.config.densify;
        weights[LossTerm::Opacity] = densify.opacity_reg as f32;
        weights[LossTerm::Scale] = in_extents(densify.scale_reg, of.extent);
        weights[LossTerm::Flatness] = in_extents(densify.flat_reg, of.extent);
    }
}
