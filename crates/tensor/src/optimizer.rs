//! Adam and AdamW. A step is ordinary nodes: few kernels update all parameters of one shape, their moments and the
//! step's number in place, without data from the host.

use crate::{Context, DType, Tensor};

/// Adam, or AdamW with `weight_decay` (decay separate from the gradient).
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// Learning rate.
    pub learning_rate: f32,
    /// Decay rate of the mean of gradients.
    pub beta1: f32,
    /// Decay rate of the mean of their squares.
    pub beta2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// Share of a parameter that each step subtracts, times the learning rate.
    pub weight_decay: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

/// State of an optimizer for a list of parameters.
#[derive(Debug, Clone)]
pub struct AdamState {
    /// Learning rate, `[]`; write it between runs to change it.
    pub learning_rate: Tensor,
    /// Steps done, `[]`.
    pub steps: Tensor,
    /// Means of gradients and of their squares for each parameter, `f32`.
    pub moments: Vec<[Tensor; 2]>,
}

impl Adam {
    /// Creates the state before the first step.
    pub fn state(&self, context: &Context, parameters: &[&Tensor]) -> AdamState {
        let zeros = |tensor: &&Tensor| [0, 1].map(|_| context.zeros(DType::F32, tensor.shape()));
        AdamState {
            learning_rate: context.tensor(&[], &[self.learning_rate]),
            steps: context.tensor(&[], &[0.0]),
            moments: parameters.iter().map(zeros).collect(),
        }
    }

    /// Returns new values of parameters, moments and the number of steps: pairs of leaf and value, as
    /// [`PlanOptions::updates`](crate::PlanOptions) takes them. Parameters without a gradient or a moment are omitted.
    pub fn step(
        &self,
        state: &AdamState,
        parameters: &[&Tensor],
        gradients: &[Tensor],
    ) -> Vec<(Tensor, Tensor)> {
        let steps = state.steps.add(1.0);
        let one = steps.context().constant(1.0);
        // beta^steps, as exp(steps log beta).
        let correction = |beta: f32| one.sub(steps.mul(beta.ln()).exp());
        let rate = state.learning_rate.div(correction(self.beta1));
        let second = correction(self.beta2);
        let mut updates = vec![(state.steps.clone(), steps.clone())];
        let all = parameters.iter().zip(gradients).zip(&state.moments);
        for ((parameter, gradient), [mean, square]) in all {
            let g = gradient.to(DType::F32);
            let new_mean = mean.mul(self.beta1).add(g.mul(1.0 - self.beta1));
            let new_square = square.mul(self.beta2).add(g.mul(&g).mul(1.0 - self.beta2));
            let size = new_square.div(&second).sqrt().add(self.epsilon);
            let mut value = parameter.to(DType::F32);
            if self.weight_decay > 0.0 {
                let share = state.learning_rate.mul(self.weight_decay);
                value = value.sub(value.mul(share));
            }
            let value = value.sub(new_mean.div(size).mul(&rate));
            updates.push(((*parameter).clone(), value.to(parameter.dtype())));
            updates.push((mean.clone(), new_mean));
            updates.push((square.clone(), new_square));
        }
        updates
    }
}
