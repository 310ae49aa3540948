//! Terms of the loss that look at Gaussians alone, each a file: value and gradient. Tests of the reference
//! and of engines go through [`REGULARISERS`]: a term that is listed there is tested everywhere.

mod flatness;
mod opacity;
mod scale;

use super::Gaussian;
use dapple_engine::{LossTerm, LossWeights};

/// Every term that looks at Gaussians alone.
pub const REGULARISERS: [&dyn Regulariser; 3] =
    [&opacity::Opacity, &scale::Scale, &flatness::Flatness];

/// A term of the loss as a function of all Gaussians; of weight 1.
pub trait Regulariser: Sync {
    /// Its name, by which a step gives it a weight.
    fn term(&self) -> LossTerm;

    /// Its value: a mean over Gaussians.
    fn value(&self, gaussians: &[Gaussian]) -> f64;

    /// The derivative of [`Self::value`] over `count` Gaussians with respect to one of them.
    fn gradient(&self, gaussian: &Gaussian, count: usize) -> RegulariserGradient;
}

/// A derivative by the geometry of a Gaussian as it is stored: logarithms of scales, a logit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RegulariserGradient {
    /// By the logarithms of scales.
    pub scale: [f64; 3],
    /// By the quaternion as it is, not normalised, `[w, x, y, z]`.
    pub quat: [f64; 4],
    /// By the logit.
    pub opacity: f64,
}

impl RegulariserGradient {
    /// With `weight` times another added.
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

/// What regularisers add to the loss.
pub fn regularisers(gaussians: &[Gaussian], weights: &LossWeights) -> f64 {
    let each = REGULARISERS.iter();
    each.map(|term| f64::from(weights[term.term()]) * term.value(gaussians))
        .sum()
}

/// The derivative of [`regularisers`] over `count` Gaussians with respect to one of them.
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
