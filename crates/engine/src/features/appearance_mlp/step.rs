//! Adam for the network, embeddings and features. Moments do not change between two steps that use their parameters.

use super::{AppearanceMlp, AppearanceMlpSettings, EMBEDDING, FEATURES, HIDDEN, NETWORK};
use crate::Adam;

/// Threshold of moments: smaller values become zero, as for other parameters.
const FLUSH: f32 = 1e-30;

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
    let of_network = rates(settings.network_rate, mlp.steps().max(1), adam);
    let (first, second) = mlp.network_moments.split_at_mut(NETWORK);
    advance(
        &mut mlp.network,
        first,
        second,
        by_network,
        of_network,
        adam,
    );
    let code = &mut mlp.embeddings[view * EMBEDDING..(view + 1) * EMBEDDING];
    let pull = 2.0 * settings.neutral / HIDDEN as f32;
    let mut by_code = *by_code;
    for (sum, value) in by_code[..HIDDEN].iter_mut().zip(&*code) {
        *sum += pull * value;
    }
    let moments = &mut mlp.embedding_moments[2 * view * EMBEDDING..2 * (view + 1) * EMBEDDING];
    let (first, second) = moments.split_at_mut(EMBEDDING);
    let of_code = rates(settings.embedding_rate, u64::from(mlp.seen[view]), adam);
    advance(code, first, second, &by_code, of_code, adam);
}

/// Returns the step size and the reciprocal of the second moments' bias correction for step number `steps`.
fn rates(rate: f32, steps: u64, adam: &Adam) -> (f32, f32) {
    let correction = |beta: f32| 1.0 - f64::from(beta).powf(steps as f64);
    let rate = (f64::from(rate) / correction(adam.beta1)) as f32;
    (rate, (1.0 / correction(adam.beta2)) as f32)
}

/// Step of Adam for features. Features of Gaussians that a photo shows change; other features and their moments do not.
/// The bias corrections count the network's steps.
#[derive(Debug, Clone, Copy)]
pub struct FeatureStep {
    rates: (f32, f32),
    adam: Adam,
}

impl FeatureStep {
    /// Prepares the next step of `mlp`.
    pub fn next(mlp: &AppearanceMlp, settings: &AppearanceMlpSettings, adam: &Adam) -> Self {
        Self {
            rates: rates(settings.feature_rate, mlp.steps() + 1, adam),
            adam: *adam,
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
        advance(features, first, second, derivative, self.rates, &self.adam);
    }
}

#[inline(always)]
fn advance(
    values: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
    (rate, inverse_correction2): (f32, f32),
    adam: &Adam,
) {
    for (((p, m), v), &g) in values.iter_mut().zip(first).zip(second).zip(gradient) {
        let g = if g.is_finite() { g } else { 0.0 };
        *m = adam.beta1 * *m + (1.0 - adam.beta1) * g;
        *v = adam.beta2 * *v + (1.0 - adam.beta2) * g * g;
        if m.abs() < FLUSH {
            *m = 0.0;
        }
        if *v < FLUSH {
            *v = 0.0;
        }
        *p -= rate * *m / ((*v * inverse_correction2).sqrt() + adam.epsilon);
    }
}
