//! Dropout ([`dapple_engine::features::dropout`]): the configured rate, or that of an amendment.

use super::point::{At, TrainFeature};
use dapple_engine::features::dropout;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = dropout::Step;
    type State = dropout::State;

    fn step(at: &At<'_>) -> Self::Step {
        dropout::Step {
            rate: at.dropout as f32,
        }
    }
}
