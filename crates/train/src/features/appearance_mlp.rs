//! Appearance MLP ([`mod@dapple_engine::appearance_mlp`]).

use super::point::{At, TrainFeature};
use dapple_engine::features::appearance_mlp;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = appearance_mlp::Step;

    fn step(at: &At<'_>) -> Self::Step {
        at.config.appearance.mlp_settings(at.place, at.config.steps)
    }
}
