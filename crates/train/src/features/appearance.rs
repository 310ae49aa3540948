//! Bilateral grids of the photos ([`mod@dapple_engine::appearance`]).

use super::point::{At, TrainFeature};
use crate::TrainConfig;
use dapple_engine::features::appearance;
use dapple_scene::Result;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = appearance::Step;

    fn step(at: &At<'_>) -> Self::Step {
        at.config.appearance.settings(at.place, at.config.steps)
    }

    /// Checks the configuration of all models of appearance.
    fn validate(config: &TrainConfig) -> Result<()> {
        config.appearance.validate(config.steps)
    }
}
