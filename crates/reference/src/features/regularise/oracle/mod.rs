//! Regularisers: terms of the loss over Gaussians, each in a file with value and gradient. Tests of the
//! reference and of engines iterate over [`REGULARISERS`], so a listed term is tested everywhere.

mod flatness;
mod opacity;
mod scale;

pub(crate) use flatness::thinnest;

use crate::oracle::Gaussian;
use dapple_engine::{LossTerm, LossWeights};

/// All regularisers.
pub const REGULARISERS: [&dyn Regulariser; 3] =
    [&opacity::Opacity, &scale::Scale, &flatness::Flatness];

/// Term of the loss as a function of all Gaussians, with weight 1.
pub trait Regulariser: Sync {
    /// Returns the term that selects the weight in a step.
    fn term(&self) -> LossTerm;

    /// Returns the value: a mean over Gaussians.
    fn value(&self, gaussians: &[Gaussian]) -> f64;

    /// Returns the derivative of [`Self::value`] over `count` Gaussians by one of them.
    fn gradient(&self, gaussian: &Gaussian, count: usize) -> RegulariserGradient;
}

/// Derivative by the geometry of a Gaussian as stored: logarithms of scales, a logit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RegulariserGradient {
    /// Derivative by the logarithms of scales.
    pub scale: [f64; 3],
    /// Derivative by the quaternion without normalisation, `[w, x, y, z]`.
    pub quat: [f64; 4],
    /// Derivative by the logit.
    pub opacity: f64,
}

impl RegulariserGradient {
    /// Returns the sum of this derivative and `weight` times another.
    #[must_use]
    fn plus(mut self, weight: f64, other: &Self) -> Self {
        let all = self.scale.iter_mut().chain(&mut self.quat);
        let by = other.scale.iter().chain(&other.quat);
        for (sum, value) in all.zip(by) {
            *sum += weight * value;
        }
        self.opacity += weight * other.opacity;
        self
    }
}

/// Returns the contribution of the regularisers to the loss.
pub fn regularisers(gaussians: &[Gaussian], weights: &LossWeights) -> f64 {
    let each = REGULARISERS.iter();
    each.map(|term| f64::from(weights[term.term()]) * term.value(gaussians))
        .sum()
}

/// Returns the derivative of [`regularisers`] over `count` Gaussians by one of them.
pub fn regularisers_backward(
    gaussian: &Gaussian,
    count: usize,
    weights: &LossWeights,
) -> RegulariserGradient {
    let each = REGULARISERS.iter();
    each.fold(RegulariserGradient::default(), |sum, term| {
        sum.plus(weights[term.term()].into(), &term.gradient(gaussian, count))
    })
}
