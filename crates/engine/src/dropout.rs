//! Gaussians that steps leave out at random, so that none learns to stand for its neighbours in one photo
//! (DropGaussian, Park et al. 2025, arXiv:2504.00773; of networks: dropout, Srivastava et al. 2014).
//!
//! 1. A step leaves each Gaussian out with probability `rate`, as if it were not in sight:
//!    [`Dropout::leaves_out`], a hash of run, step and index that every engine draws alike.
//! 2. The opacity of the others is `1 / (1 - rate)` times theirs, so that each adds in the mean what it adds
//!    without, and at most [`crate::constants::ALPHA_MAX`]: a Gaussian whose opacity alone is cut keeps its shape, one
//!    that is cut pixel by pixel is a disc, which no render shows. See [`Dropout::shown`].
//! 3. The derivative by the logit is that of the opacity that is not cut: one that is cut can come back.
//! 4. Renders, scores and gradients that are asked for leave nothing out.

use crate::constants::ALPHA_MAX;
use crate::{StepSettings, noise};

/// Which random number of [`noise`] it takes: beyond those of splits, of noise and of draws.
pub const DROPOUT: u32 = 65;

/// What one step leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    rate: f32,
    seed: u64,
    step: u32,
}

impl Dropout {
    /// Of a step; `None` where it leaves out nothing.
    pub fn of(settings: &StepSettings) -> Option<Self> {
        (settings.dropout > 0.0).then_some(Self {
            rate: settings.dropout,
            seed: settings.extras.seed,
            step: settings.step,
        })
    }

    /// Whether the step leaves this Gaussian out.
    pub fn leaves_out(&self, index: u32) -> bool {
        noise::uniform(self.seed, self.step, index, DROPOUT) < self.rate
    }

    /// What the opacity of the others is multiplied by, and the most that it is then.
    pub fn shown(&self) -> (f32, f32) {
        (1.0 / (1.0 - self.rate), ALPHA_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RenderSettings;

    fn dropout(rate: f32, step: u32) -> Option<Dropout> {
        Dropout::of(&StepSettings {
            dropout: rate,
            ..StepSettings::new(step, RenderSettings::default())
        })
    }

    #[test]
    fn as_many_are_left_out_as_were_asked_for_and_others_each_step() {
        assert_eq!(dropout(0.0, 1), None);
        let (first, second) = (dropout(0.1, 1).unwrap(), dropout(0.1, 2).unwrap());
        let n = 100_000;
        let count =
            |f: &dyn Fn(u32) -> bool| (0..n).filter(|&i| f(i)).count() as f64 / f64::from(n);
        let one = count(&|i| first.leaves_out(i));
        let both = count(&|i| first.leaves_out(i) && second.leaves_out(i));
        assert!((one - 0.1).abs() < 0.003, "{one}");
        assert!((both - 0.01).abs() < 0.001, "{both}");
    }
}
