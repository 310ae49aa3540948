//! Appearance MLP ([`mod@dapple_engine::appearance_mlp`]).

use super::point::{At, SizesOf, Stored, TrainFeature};
use crate::TrainConfig;
use crate::config::AppearanceConfig;
use dapple_engine::AppearanceMlpSettings;
use dapple_engine::features::StateTensor;
use dapple_engine::features::appearance_mlp::{self, EMBEDDING, FEATURES, NETWORK};
use dapple_scene::Result;

/// First step size of an embedding that is fitted to a photo after the run.
const FIT_RATE: f64 = 0.1;

/// The feature in training.
pub(super) struct Feature;

impl TrainFeature for Feature {
    type Step = appearance_mlp::Step;
    type State = appearance_mlp::State;

    fn step(at: &At<'_>) -> Self::Step {
        at.config.appearance.mlp_settings(at.place, at.config.steps)
    }

    /// The first state has a network already.
    fn learns(config: &TrainConfig, _has_steps: bool) -> bool {
        config.appearance.has_mlp()
    }

    fn sizes(of: &Stored<'_>) -> Result<SizesOf<Self>> {
        let mut sizes = SizesOf::<Self>::default();
        if Self::learns(of.config, of.has_steps) {
            sizes.views = (of.rows)("look.seen")?;
            sizes.gaussians = (of.rows)("look.features")?;
        }
        Ok(sizes)
    }

    fn photos(sizes: &SizesOf<Self>) -> usize {
        sizes.views
    }

    fn result(state: &Self::State) -> Vec<StateTensor<'_>> {
        if state.is_empty() {
            return Vec::new();
        }
        let (views, gaussians) = (state.views(), state.gaussians());
        vec![
            StateTensor::floats("frame", &[state.frame.len()], &state.frame),
            StateTensor::floats("network", &[NETWORK], &state.network),
            StateTensor::floats("codes", &[views, EMBEDDING], &state.embeddings),
            StateTensor::counts("seen", &[views], &state.seen),
            StateTensor::floats("features", &[gaussians, FEATURES], &state.features),
        ]
    }

    /// Moves the embedding of the photo, and neither network nor features.
    fn fit(appearance: &AppearanceConfig, rate: f64) -> Self::Step {
        appearance.has_mlp().then_some(AppearanceMlpSettings {
            network_rate: 0.0,
            embedding_rate: (FIT_RATE * rate) as f32,
            feature_rate: 0.0,
            neutral: appearance.identity as f32,
        })
    }
}
