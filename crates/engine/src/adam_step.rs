//! Adam (Kingma & Ba 2015, algorithm 1) for a single number.

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
