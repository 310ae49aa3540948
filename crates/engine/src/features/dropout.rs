//! Dropout: a step drops Gaussians at random, so that none learns to replace its neighbours in one photo
//! (DropGaussian, Park et al. 2025, arXiv:2504.00773; for networks: dropout, Srivastava et al. 2014).
//!
//! 1. A step drops each Gaussian with probability `rate`, as if it were not visible: [`Dropout::drops_gaussian`], a
//!    hash of run, step and index with the same value on every engine.
//! 2. The opacity of the other Gaussians is multiplied by `1 / (1 - rate)`, so that the mean contribution of each is
//!    unchanged. The product is at most [`crate::constants::ALPHA_MAX`]. Limiting the opacity of a whole Gaussian
//!    keeps its shape; limiting it pixel by pixel gives a disc, which no render shows. See [`Dropout::shown`].
//! 3. The derivative by the logit is that of the opacity before the limit, so that a limited opacity can decrease
//!    again.
//! 4. Renders, scores and calls for gradients drop no Gaussian.

use crate::constants::ALPHA_MAX;
use crate::noise;
use serde::{Deserialize, Serialize};

/// Dropout has no state.
pub type State = ();

/// Numbers of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Dropout rate: the share of the Gaussians that the step drops at random, 0 to below 1, keyed by
    /// [`StepSettings::seed`](crate::StepSettings::seed).
    pub rate: f32,
}

/// Number of the random draw of [`noise`] for dropout: above the draws of splits, noise and relocation.
pub const DROPOUT: u32 = 65;

/// Dropout of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    rate: f32,
    seed: u64,
    step: u32,
}

impl Dropout {
    /// Returns the dropout of step number `step` of a run with this seed; `None` if its rate is 0.
    pub fn new(numbers: Step, seed: u64, step: u32) -> Option<Self> {
        let rate = numbers.rate;
        (rate > 0.0).then_some(Self { rate, seed, step })
    }

    /// Returns true if the step drops this Gaussian.
    pub fn drops_gaussian(&self, index: u32) -> bool {
        noise::uniform(self.seed, self.step, index, DROPOUT) < self.rate
    }

    /// Returns the factor of the other Gaussians' opacity, and the limit of the product.
    pub fn shown(&self) -> (f32, f32) {
        (1.0 / (1.0 - self.rate), ALPHA_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropout(rate: f32, step: u32) -> Option<Dropout> {
        Dropout::new(Step { rate }, 0, step)
    }

    #[test]
    fn as_many_are_left_out_as_were_asked_for_and_others_each_step() {
        assert_eq!(dropout(0.0, 1), None);
        let (first, second) = (dropout(0.1, 1).unwrap(), dropout(0.1, 2).unwrap());
        let n = 100_000;
        let count =
            |f: &dyn Fn(u32) -> bool| (0..n).filter(|&i| f(i)).count() as f64 / f64::from(n);
        let one = count(&|i| first.drops_gaussian(i));
        let both = count(&|i| first.drops_gaussian(i) && second.drops_gaussian(i));
        assert!((one - 0.1).abs() < 0.003, "{one}");
        assert!((both - 0.01).abs() < 0.001, "{both}");
    }
}
