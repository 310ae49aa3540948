//! Adam for the network, embeddings and features. Moments do not change between two steps that use their parameters.

use super::{AppearanceMlp, AppearanceMlpSettings, EMBEDDING, FEATURES, HIDDEN, NETWORK};
use crate::{Adam, RestedAdam};

/// Takes a step of Adam with the derivatives by the network and by a view's embedding. A non-finite derivative moves
/// nothing.
pub fn step(
    mlp: &mut AppearanceMlp,
    view: usize,
    gradient: (&[f32], &[f32; EMBEDDING]),
    settings: &AppearanceMlpSettings,
    adam: &Adam,
) {
    mlp.seen[view] = mlp.seen[view].saturating_add(1);
    let (by_network, by_code) = gradient;
    let of_network = RestedAdam::new(settings.network_rate, mlp.steps().max(1), adam);
    let (first, second) = mlp.network_moments.split_at_mut(NETWORK);
    advance(&mut mlp.network, first, second, by_network, of_network);
    let code = &mut mlp.embeddings[view * EMBEDDING..(view + 1) * EMBEDDING];
    let pull = 2.0 * settings.neutral / HIDDEN as f32;
    let mut by_code = *by_code;
    for (sum, value) in by_code[..HIDDEN].iter_mut().zip(&*code) {
        *sum += pull * value;
    }
    let moments = &mut mlp.embedding_moments[2 * view * EMBEDDING..2 * (view + 1) * EMBEDDING];
    let (first, second) = moments.split_at_mut(EMBEDDING);
    let of_code = RestedAdam::new(settings.embedding_rate, mlp.seen[view].into(), adam);
    advance(code, first, second, &by_code, of_code);
}

/// Step of Adam for features. Features of Gaussians that a photo shows change; other features and their moments do not.
/// The bias corrections count the network's steps.
#[derive(Debug, Clone, Copy)]
pub struct FeatureStep {
    adam: RestedAdam,
}

impl FeatureStep {
    /// Prepares the next step of `mlp`.
    pub fn next(mlp: &AppearanceMlp, settings: &AppearanceMlpSettings, adam: &Adam) -> Self {
        Self {
            adam: RestedAdam::new(settings.feature_rate, mlp.steps() + 1, adam),
        }
    }

    /// Moves the features of one Gaussian by their derivative. A non-finite derivative moves nothing.
    #[inline(always)]
    pub fn advance(
        &self,
        features: &mut [f32; FEATURES],
        first: &mut [f32; FEATURES],
        second: &mut [f32; FEATURES],
        derivative: &[f32; FEATURES],
    ) {
        advance(features, first, second, derivative, self.adam);
    }
}

#[inline(always)]
fn advance(
    values: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
    adam: RestedAdam,
) {
    for (((number, m), v), &g) in values.iter_mut().zip(first).zip(second).zip(gradient) {
        adam.advance(number, m, v, if g.is_finite() { g } else { 0.0 });
    }
}
