//! Noise on centres ([`dapple_engine::features::noise`]), which the density strategy sets.

use super::point::{At, TrainFeature};
use dapple_engine::features::noise;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = noise::Step;
    type State = noise::State;

    fn step(at: &At<'_>) -> Self::Step {
        noise::Step {
            scale: at.extras.noise,
        }
    }
}
