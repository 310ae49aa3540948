//! Loss terms over Gaussians: their weights are in the schedule ([`crate::Schedule::losses`]).

use super::point::{At, TrainFeature};
use dapple_engine::features::regularise;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = regularise::Step;
    type State = regularise::State;

    fn step(_at: &At<'_>) -> Self::Step {}
}
