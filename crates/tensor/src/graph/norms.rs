//! Softmax and norms over the last axis, written in other operations: a row's passes are fused into one kernel, forward
//! and backward. Their derivatives are written out, so that the backward pass stores means instead of rows.

use super::problem::Problem;
use super::tensor::{CustomOp, DType, Tensor};
use std::sync::Arc;

struct Softmax;
struct LogSoftmax;
struct LayerNorm(f32);
struct RmsNorm(f32);

fn last(tensor: &Tensor) -> [usize; 1] {
    [tensor.rank().saturating_sub(1)]
}

impl CustomOp for Softmax {
    fn name(&self) -> &str {
        "softmax"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let x = &inputs[0];
        let e = x.to(DType::F32).sub(x.max_keep(&last(x))).exp();
        e.div(e.sum_keep(&last(x))).stored_as(x.dtype())
    }

    fn backward(&self, inputs: &[Tensor], y: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let axes = last(&inputs[0]);
        let y = y.to(DType::F32);
        let along = g.mul(&y).sum_keep(&axes);
        vec![Some(y.mul(g.sub(along)).stored_as(inputs[0].dtype()))]
    }
}

impl CustomOp for LogSoftmax {
    fn name(&self) -> &str {
        "log_softmax"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let x = &inputs[0];
        let away = x.to(DType::F32).sub(x.max_keep(&last(x)));
        let size = away.exp().sum_keep(&last(x)).log();
        away.sub(size).stored_as(x.dtype())
    }

    fn backward(&self, inputs: &[Tensor], y: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let axes = last(&inputs[0]);
        let share = y.to(DType::F32).exp();
        let g = g.to(DType::F32);
        let gradient = g.sub(share.mul(g.sum_keep(&axes)));
        vec![Some(gradient.stored_as(inputs[0].dtype()))]
    }
}

impl CustomOp for LayerNorm {
    fn name(&self) -> &str {
        "layer_norm"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let x = &inputs[0];
        let away = x.to(DType::F32).sub(x.mean_keep(&last(x)));
        let variance = away.mul(&away).mean_keep(&last(x));
        away.div(variance.add(self.0).sqrt()).stored_as(x.dtype())
    }

    // `s (g - mean(g) - n mean(g n))` with `s = 1 / sqrt(variance + eps)` and `n` the normalised row, recomputed from
    // `x`.
    fn backward(&self, inputs: &[Tensor], _: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let axes = last(&inputs[0]);
        let x = inputs[0].to(DType::F32);
        let away = x.sub(x.mean_keep(&axes));
        let spread = away.mul(&away).mean_keep(&axes).add(self.0).sqrt();
        let n = away.div(&spread);
        let g = g.to(DType::F32);
        let along = g.mul(&n).mean_keep(&axes);
        let gradient = g.sub(g.mean_keep(&axes)).sub(n.mul(along)).div(spread);
        vec![Some(gradient.stored_as(inputs[0].dtype()))]
    }
}

impl CustomOp for RmsNorm {
    fn name(&self) -> &str {
        "rms_norm"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        let x = inputs[0].to(DType::F32);
        let size = x.mul(&x).mean_keep(&last(&x)).add(self.0).sqrt();
        x.div(size).stored_as(inputs[0].dtype())
    }

    // `(g - n mean(g n)) / size` with `n = x / size`.
    fn backward(&self, inputs: &[Tensor], _: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        let axes = last(&inputs[0]);
        let x = inputs[0].to(DType::F32);
        let size = x.mul(&x).mean_keep(&axes).add(self.0).sqrt();
        let n = x.div(&size);
        let g = g.to(DType::F32);
        let along = g.mul(&n).mean_keep(&axes);
        let gradient = g.sub(n.mul(along)).div(size);
        vec![Some(gradient.stored_as(inputs[0].dtype()))]
    }
}

impl Tensor {
    fn over_rows(&self, op: impl CustomOp + 'static) -> Self {
        if self.rank() == 0 {
            let what = format!("{} of {}", op.name(), self.describe());
            return self.refused(
                &[self],
                Problem::new(what, "it needs an axis to go over: see reshape"),
            );
        }
        Self::custom(Arc::new(op), &[self])
    }

    /// Returns the softmax over the last axis; the row's maximum is subtracted first. A row of only minus infinity is
    /// NaN, by definition.
    #[must_use]
    pub fn softmax(&self) -> Self {
        self.over_rows(Softmax)
    }

    /// Returns the logarithm of [`Self::softmax`], without its rounding.
    #[must_use]
    pub fn log_softmax(&self) -> Self {
        self.over_rows(LogSoftmax)
    }

    /// Returns the mean over rows of `-sum(wanted log softmax)`. `wanted` is either the class of each row, of
    /// [`Context::indices`](crate::Context::indices) and of this shape without its last axis, or the share of each
    /// class, of this shape. A class beyond the last makes the result NaN.
    #[must_use]
    pub fn cross_entropy(&self, wanted: &Self) -> Self {
        let operands = [self, wanted];
        let is_of_classes = wanted.dtype() == DType::U32;
        let rows = &self.shape()[..self.rank().saturating_sub(1)];
        let expected = if is_of_classes { rows } else { self.shape() };
        if self.rank() == 0 || wanted.shape() != expected || wanted.context() != self.context() {
            let what = format!(
                "cross_entropy of {} and {}",
                self.describe(),
                wanted.describe()
            );
            let hint = "give the class of each row, as Context::indices, or a share of each class, of the same shape; \
                        make both from one context";
            return self.refused(&operands, Problem::new(what, hint));
        }
        let count = rows.iter().product::<usize>() as f32;
        match is_of_classes {
            true => self.log_share_of(wanted).sum().div(-count),
            false => self.log_softmax().mul(wanted).sum().div(-count),
        }
    }

    /// Returns the log softmax at one class of each row: `[.., 1]`.
    fn log_share_of(&self, classes: &Self) -> Self {
        let count = self.shape().last().copied().unwrap_or(1);
        let all: Vec<f32> = (0..count).map(|class| class as f32).collect();
        let all = self.context().tensor(&[count], &all);
        let is_wanted = classes.as_f32().unsqueeze(classes.rank()).equal(all);
        let axis = [self.rank() - 1];
        let share = is_wanted.select(self.log_softmax(), 0.0).sum_keep(&axis);
        // 1, or 0 if the class does not exist.
        share.div(is_wanted.sum_keep(&axis))
    }

    /// Computes `(x - mean) / sqrt(variance + epsilon)` over the last axis.
    #[must_use]
    pub fn layer_norm(&self, epsilon: f32) -> Self {
        self.over_rows(LayerNorm(epsilon))
    }

    /// Computes `x / sqrt(mean(x^2) + epsilon)` over the last axis.
    #[must_use]
    pub fn rms_norm(&self, epsilon: f32) -> Self {
        self.over_rows(RmsNorm(epsilon))
    }
}
