//! Adam (Kingma & Ba 2015, algorithm 1) for a single number: in `f64`, and in `f32` as engines run it for numbers that
//! not every step moves.

use crate::Adam;

/// Computes one step of `[parameter, first moment, second moment]`. `step` counts from 1.
pub fn adam(
    [parameter, first, second]: [f64; 3],
    gradient: f64,
    learning_rate: f64,
    constants: &Adam,
    step: u32,
) -> [f64; 3] {
    let (beta1, beta2) = (f64::from(constants.beta1), f64::from(constants.beta2));
    let first = beta1 * first + (1.0 - beta1) * gradient;
    let second = beta2 * second + (1.0 - beta2) * gradient * gradient;
    // Moments start at zero; the sum of the weights of the gradients so far is 1 - beta^step.
    let step = f64::from(step);
    let unbiased_first = first / (1.0 - beta1.powf(step));
    let unbiased_second = second / (1.0 - beta2.powf(step));
    let change =
        learning_rate * unbiased_first / (unbiased_second.sqrt() + f64::from(constants.epsilon));
    [parameter - change, first, second]
}

/// Threshold of moments: smaller values become zero, as for Gaussians.
const FLUSH: f32 = 1e-30;

/// A step of Adam in `f32` for numbers whose moments are idle between the steps that move them: those of a view,
/// a camera or a network.
#[derive(Debug, Clone, Copy)]
pub struct RestedAdam {
    rate: f32,
    inverse_correction2: f32,
    adam: Adam,
}

impl RestedAdam {
    /// Prepares step number `steps` of some numbers, counted from 1, with this step size.
    pub fn new(rate: f32, steps: u64, adam: &Adam) -> Self {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(steps as f64);
        Self {
            rate: (f64::from(rate) / correction(adam.beta1)) as f32,
            inverse_correction2: (1.0 / correction(adam.beta2)) as f32,
            adam: *adam,
        }
    }

    /// Moves a number, with its first and second moment, by its derivative.
    #[inline(always)]
    pub fn advance(&self, number: &mut f32, first: &mut f32, second: &mut f32, derivative: f32) {
        let Adam {
            beta1,
            beta2,
            epsilon,
        } = self.adam;
        *first = beta1 * *first + (1.0 - beta1) * derivative;
        *second = beta2 * *second + (1.0 - beta2) * derivative * derivative;
        if first.abs() < FLUSH {
            *first = 0.0;
        }
        if *second < FLUSH {
            *second = 0.0;
        }
        let root = (*second * self.inverse_correction2).sqrt();
        *number -= self.rate * *first / (root + epsilon);
    }
}
