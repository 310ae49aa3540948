//! [`Batch`]: steps whose gradients move the Gaussians together. [`GaussianUpdate`]: numbers of that move.
//!
//! 1. Each step of a batch renders its photo, compares it, and adds its gradients to those of the steps before, in the
//!    order of the steps. Density statistics, poses and the appearance of photos change in each step, as without batches.
//! 2. The last step divides the sums by the size of the batch and moves the Gaussians. Loss terms over Gaussians and noise
//!    act then, once.
//! 3. Mean gradients vary less than those of one photo. The scaling rule of Malladi et al. 2022 (arXiv:2205.10287) keeps
//!    the progress per photo: step sizes times the root of the size, epsilon divided by it, and moments that decay as much
//!    as in the steps together (`beta` to the power of the size; their `1 - size (1 - beta)` is the first term). Noise has
//!    the variance of that of all steps.

use crate::{Adam, LearningRates, StepSettings};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};

/// Place of a step in its batch. The default is a batch of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Number of the step in the batch, from 0.
    pub index: u32,
    /// Steps of the batch, at least 1.
    pub size: u32,
}

impl Batch {
    /// A batch of one step.
    pub const ONE: Self = Self { index: 0, size: 1 };

    /// Returns true for a batch of one step.
    pub fn is_single(self) -> bool {
        self.size <= 1
    }

    /// Returns true for the first step of a batch.
    pub fn is_first(self) -> bool {
        self.index == 0
    }

    /// Returns true for the last step of a batch, which moves the Gaussians.
    pub fn is_last(self) -> bool {
        self.index + 1 >= self.size
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::ONE
    }
}

/// Numbers with which the last step of a batch moves the Gaussians; those of its settings if it is the only step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianUpdate {
    /// Factor of the sums of gradients: 1 / size.
    pub share: f32,
    /// Step sizes.
    pub learning_rates: LearningRates,
    /// Constants of Adam.
    pub adam: Adam,
    /// Number of updates for Adam's bias correction, from 1: steps divided by the size, so that a batch at the end of a
    /// run may be smaller than the others.
    pub number: f64,
    /// Scale of the noise.
    pub noise: f32,
}

impl GaussianUpdate {
    /// Returns the numbers of the update after the step with these settings.
    pub fn of(settings: &StepSettings) -> Self {
        let number = f64::from(settings.step.max(1));
        let noise = settings.features.noise.scale;
        if settings.batch.is_single() {
            return Self {
                share: 1.0,
                learning_rates: settings.learning_rates,
                adam: settings.adam,
                number,
                noise,
            };
        }
        let size = f64::from(settings.batch.size);
        let times = |value: f32, factor: f64| (f64::from(value) * factor) as f32;
        let faster = |beta: f32| f64::from(beta).powf(size) as f32;
        let (root, adam) = (size.sqrt(), &settings.adam);
        Self {
            share: (1.0 / size) as f32,
            learning_rates: settings.learning_rates.map(|rate| times(rate, root)),
            adam: Adam {
                beta1: faster(adam.beta1),
                beta2: faster(adam.beta2),
                epsilon: times(adam.epsilon, 1.0 / root),
            },
            number: number / size,
            noise: times(noise, root),
        }
    }

    /// Returns one minus a power of `beta`: the sum of the weights of all gradients so far in a moment.
    pub fn correction(&self, beta: f32) -> f64 {
        1.0 - f64::from(beta).powf(self.number)
    }
}

/// Checks that the steps of batches come in order, and that nothing else comes between them.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenBatch {
    /// Index of the next step and size; `None` between batches.
    next: Option<(u32, u32)>,
    /// Steps of the last batch.
    size: u32,
}

impl OpenBatch {
    /// Notes a step.
    ///
    /// # Errors
    /// A step of another batch, or not the next one.
    pub fn step(&mut self, batch: Batch) -> Result<()> {
        let expected = self.next.unwrap_or((0, batch.size));
        if expected != (batch.index, batch.size) {
            return Err(Error::internal(format!(
                "step {} of a batch of {} came where step {} of {} was due",
                batch.index + 1,
                batch.size,
                expected.0 + 1,
                expected.1
            )));
        }
        self.size = batch.size;
        self.next = (!batch.is_last()).then_some((batch.index + 1, batch.size));
        Ok(())
    }

    /// Refuses a call between the steps of a batch that would change its Gaussians.
    ///
    /// # Errors
    /// A batch is open.
    pub fn refuse(&self, call: &str) -> Result<()> {
        match self.next {
            None => Ok(()),
            Some((done, size)) => Err(Error::internal(format!(
                "{call} came after {done} of the {size} steps of a batch"
            ))),
        }
    }

    /// Returns the steps of the last batch, at least 1.
    pub fn size(&self) -> u32 {
        self.size.max(1)
    }

    /// Drops an open batch.
    pub fn clear(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::RenderSettings;

    fn settings(step: u32, batch: Batch) -> StepSettings {
        let rates = LearningRates {
            means: 1.0,
            scales: 2.0,
            quats: 3.0,
            opacities: 4.0,
            sh0: 5.0,
            sh_rest: 6.0,
        };
        let mut settings = StepSettings::new(step, RenderSettings::default());
        settings.learning_rates = rates;
        settings.features.noise.scale = 8.0;
        settings.batch = batch;
        settings
    }

    #[test]
    fn a_batch_of_four_moves_twice_as_far_and_decays_as_much_as_four_steps() {
        let one = GaussianUpdate::of(&settings(8, Batch::ONE));
        let four = GaussianUpdate::of(&settings(8, Batch { index: 3, size: 4 }));
        assert_eq!((four.share, four.noise), (0.25, 16.0));
        assert_eq!(
            four.learning_rates,
            one.learning_rates.map(|rate| 2.0 * rate)
        );
        assert_eq!(four.adam.epsilon, 0.5 * one.adam.epsilon);
        assert!((f64::from(four.adam.beta1) - 0.6561).abs() < 1e-7);
        assert_eq!((one.number, four.number), (8.0, 2.0));
        let close = |beta: f32, of_four: f32| {
            (one.correction(beta) - four.correction(of_four)).abs() < 1e-6
        };
        assert!(close(one.adam.beta1, four.adam.beta1));
        assert!(close(one.adam.beta2, four.adam.beta2));
    }

    #[test]
    fn steps_of_a_batch_come_in_order_and_alone() {
        let mut open = OpenBatch::default();
        let of = |index| Batch { index, size: 3 };
        open.step(Batch::ONE).unwrap();
        open.step(of(0)).unwrap();
        assert!(open.refuse("a round").is_err());
        assert!(open.step(of(2)).is_err() && open.step(Batch::ONE).is_err());
        open.step(of(1)).unwrap();
        open.step(of(2)).unwrap();
        open.refuse("a round").unwrap();
        assert!(open.step(of(1)).is_err());
    }
}
