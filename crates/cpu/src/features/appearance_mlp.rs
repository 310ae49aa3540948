//! Appearance MLP: see [`kernels`]. The Gaussians' features are components after their parameters
//! ([`Model`]), so that every move of a Gaussian moves its features.

pub mod kernels;

use super::point::{Feature, Learnt};
use crate::blocks::Blocks;
use crate::context::StepContext;
use crate::model::Model;
use crate::views::Views;
use dapple_engine::appearance_mlp::{FEATURES, no_embedding};
use dapple_engine::{AppearanceMlp, Stage};
use dapple_scene::Result;
use kernels::{MlpColours, Prepared};

/// Appearance MLP of a run.
#[derive(Debug, Default)]
pub struct Held {
    /// Network, embeddings and their moments, without the Gaussians' features.
    network: AppearanceMlp,
    /// Network for the photo of the step.
    prepared: Option<Prepared>,
    /// Buffers between steps; in a step they are in [`KernelSlots::mlp`](crate::context::KernelSlots::mlp).
    colours: MlpColours,
}

impl Feature for Held {
    fn prepare(&mut self, step: &mut StepContext<'_>) -> Result<()> {
        self.prepared = None;
        if step.settings.features.appearance_mlp.is_none() {
            return Ok(());
        }
        let view = step.view.0;
        if view >= self.network.views() {
            return Err(no_embedding());
        }
        let embedding = self.network.embedding(view);
        let prepared = Prepared::new(&self.network, &embedding).ok_or_else(no_embedding)?;
        self.prepared = Some(prepared);
        Ok(())
    }

    fn before_project(&mut self, step: &mut StepContext<'_>) {
        if let Some(prepared) = &self.prepared {
            let mut colours = std::mem::take(&mut self.colours);
            kernels::run(prepared, &step.model.params, &mut colours);
            step.slots.mlp = Some(colours);
            step.clock.lap(Stage::Appearance);
        }
    }

    fn after_update(&mut self, step: &mut StepContext<'_>) {
        let settings = step.settings;
        if let (Some(prepared), Some(colours), Some(learnt)) = (
            self.prepared.take(),
            step.slots.mlp.take(),
            &settings.features.appearance_mlp,
        ) {
            let held = (&mut self.network, step.view.0);
            kernels::step(
                &prepared,
                &colours,
                step.model,
                held,
                learnt,
                &settings.adam,
            );
            self.colours = colours;
            step.clock.lap(Stage::Appearance);
        }
    }
}

impl Learnt for Held {
    type State = AppearanceMlp;

    /// Takes the network of a state, and moves the Gaussians' features into the blocks.
    fn set_state(&mut self, mut network: AppearanceMlp, model: &mut Model, _views: &mut Views) {
        if !network.is_empty() {
            let features = std::mem::take(&mut network.features);
            let moments = std::mem::take(&mut network.feature_moments);
            let with = |blocks: &mut Blocks, own: &[f32], skip: usize, of: usize| {
                let rows = own.as_chunks::<FEATURES>().0.iter().skip(skip).step_by(of);
                *blocks = std::mem::take(blocks).with_features(rows);
            };
            with(&mut model.params, &features, 0, 1);
            with(&mut model.first, &moments, 0, 2);
            with(&mut model.second, &moments, 1, 2);
        }
        self.network = network;
    }

    /// Returns the network with the Gaussians' features.
    fn state(&self, model: &Model, _views: &Views) -> AppearanceMlp {
        let mut mlp = self.network.clone();
        if mlp.is_empty() {
            return mlp;
        }
        for i in 0..model.params.len {
            mlp.features.extend(model.params.features_of(i));
            mlp.feature_moments.extend(model.first.features_of(i));
            mlp.feature_moments.extend(model.second.features_of(i));
        }
        mlp
    }
}
