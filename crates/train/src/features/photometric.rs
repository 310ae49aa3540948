//! Photometric models of photos and cameras ([`mod@dapple_engine::photometric`]).

use super::point::{At, TrainFeature};
use dapple_engine::features::photometric;

/// Photometric model as a feature of training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = photometric::Step;

    fn step(at: &At<'_>) -> Self::Step {
        let appearance = &at.config.appearance;
        appearance.photometric_settings(at.place, at.config.steps)
    }
}
