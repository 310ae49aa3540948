//! Appearance MLP in the engine: Gaussians' features are components after their parameters.

use super::CpuEngine;
use crate::blocks::Blocks;
use crate::stages::appearance_mlp;
use dapple_engine::appearance_mlp::{FEATURES, no_look};
use dapple_engine::{AppearanceMlp, StepSettings, ViewId};
use dapple_scene::Result;

impl CpuEngine {
    /// Moves the Gaussians' features from the appearance MLP into the blocks, so that every move of a Gaussian
    /// moves its features.
    pub(super) fn take_features(&mut self) {
        if self.appearance_mlp.is_empty() {
            return;
        }
        let features = std::mem::take(&mut self.appearance_mlp.features);
        let moments = std::mem::take(&mut self.appearance_mlp.feature_moments);
        let with = |blocks: &mut Blocks, own: &[f32], skip: usize, of: usize| {
            let rows = own.as_chunks::<FEATURES>().0.iter().skip(skip).step_by(of);
            *blocks = std::mem::take(blocks).with_features(rows);
        };
        with(&mut self.params, &features, 0, 1);
        with(&mut self.first, &moments, 0, 2);
        with(&mut self.second, &moments, 1, 2);
    }

    /// Returns the appearance MLP with the Gaussians' features.
    pub(super) fn mlp_with_features(&self) -> AppearanceMlp {
        let mut mlp = self.appearance_mlp.clone();
        if mlp.is_empty() {
            return mlp;
        }
        for i in 0..self.params.len {
            mlp.features.extend(self.params.features_of(i));
            mlp.feature_moments.extend(self.first.features_of(i));
            mlp.feature_moments.extend(self.second.features_of(i));
        }
        mlp
    }

    /// Prepares the network for a step's photo, if the step requests it.
    pub(super) fn prepare_look(
        &mut self,
        view: ViewId,
        settings: &StepSettings,
    ) -> Result<Option<appearance_mlp::Prepared>> {
        if settings.appearance_mlp.is_none() {
            return Ok(None);
        }
        if view.0 >= self.appearance_mlp.views() {
            return Err(no_look());
        }
        let code = self.appearance_mlp.embedding(view.0);
        appearance_mlp::Prepared::new(&self.appearance_mlp, &code)
            .map(Some)
            .ok_or_else(no_look)
    }
}
