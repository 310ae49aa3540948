//! Operations on elements: arithmetic, activations, comparisons, types. Shapes broadcast; a result of 16-bit operands
//! is rounded to 16 bits, of mixed ones it is `f32`. Constants take the type of the other operand.

use super::element::ElementOp as E;
use super::layout::{Layout, broadcast};
use super::problem::Problem;
use super::tensor::{CustomOp, DType, Op, Tensor};
use std::sync::Arc;

/// Operand of a tensor: another tensor, or a number.
pub trait Operand {
    /// Returns the operand as a tensor of the same context as `beside`.
    fn tensor(&self, beside: &Tensor) -> Tensor;
}

impl Operand for Tensor {
    fn tensor(&self, _: &Tensor) -> Tensor {
        self.clone()
    }
}

impl Operand for &Tensor {
    fn tensor(&self, _: &Tensor) -> Tensor {
        (*self).clone()
    }
}

impl Operand for f32 {
    fn tensor(&self, beside: &Tensor) -> Tensor {
        beside.context().constant(*self)
    }
}

/// Maximum and minimum whose bounds pass gradients, as those of PyTorch's `clamp` do.
struct Clamp(f32, f32);

impl CustomOp for Clamp {
    fn name(&self) -> &str {
        "clamp"
    }

    fn forward(&self, inputs: &[Tensor]) -> Tensor {
        inputs[0].maximum(self.0).minimum(self.1)
    }

    fn backward(&self, inputs: &[Tensor], y: &Tensor, g: &Tensor) -> Vec<Option<Tensor>> {
        vec![Some(y.equal(&inputs[0]).select(g, 0.0))]
    }
}

impl Tensor {
    /// Returns true if all elements are one number that is written into the kernels.
    pub(crate) fn is_constant(&self) -> bool {
        self.constant_value().is_some()
    }

    /// Returns the number of a constant.
    pub(crate) fn constant_value(&self) -> Option<f32> {
        match self.root().0.op {
            Op::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the type of results from these operands.
    pub(crate) fn joint_dtype(operands: &[&Self]) -> DType {
        let mut known = operands.iter().filter(|operand| !operand.is_constant());
        let all_half =
            known.clone().count() > 0 && known.all(|operand| operand.dtype() == DType::F16);
        if all_half { DType::F16 } else { DType::F32 }
    }

    /// Returns the reason why operands do not fit: another device, numbers for indices.
    pub(crate) fn unfit(op: &str, operands: &[&Self]) -> Option<Arc<Problem>> {
        let first = operands.first()?;
        for other in operands {
            if other.context() != first.context() {
                let what = format!(
                    "{op} of {} on {} and {} on {}",
                    first.describe(),
                    first.context().name(),
                    other.describe(),
                    other.context().name()
                );
                return Some(Problem::new(
                    what,
                    "make both from one context; read and upload to move values",
                ));
            }
            if other.dtype() == DType::U32 {
                let what = format!("{op} of {}, which holds indices", other.describe());
                return Some(Problem::new(
                    what,
                    "indices are for embedding: make a tensor of f32",
                ));
            }
        }
        None
    }

    pub(crate) fn element(op: E, operands: &[&Self]) -> Self {
        let first = operands[0];
        if let Some(problem) = Self::unfit(op.title(), operands) {
            return first.refused(operands, problem);
        }
        let mut shape = first.shape().to_vec();
        for other in &operands[1..] {
            match broadcast(&shape, other.shape()) {
                Some(joint) => shape = joint,
                None => {
                    let what = format!(
                        "{} of {} and {}",
                        op.title(),
                        first.describe(),
                        other.describe()
                    );
                    let hint = "sizes must be equal from the last axis on, or 1: see unsqueeze and transpose";
                    return first.refused(operands, Problem::new(what, hint));
                }
            }
        }
        let inputs: Vec<Self> = operands
            .iter()
            .map(|operand| operand.expanded_to(&shape))
            .collect();
        let dtype = Self::joint_dtype(operands);
        let layout = Layout::contiguous(&shape);
        let made = Self::make(first.context(), Op::Element(op), inputs, layout, DType::F32);
        made.stored_as(dtype)
    }

    /// Rounds the tensor if `dtype` requires it.
    pub(crate) fn stored_as(&self, dtype: DType) -> Self {
        match dtype {
            DType::F16 => self.to(DType::F16),
            _ => self.clone(),
        }
    }

    fn unary(&self, op: E) -> Self {
        Self::element(op, &[self])
    }

    fn binary(&self, op: E, other: impl Operand) -> Self {
        Self::element(op, &[self, &other.tensor(self)])
    }

    /// Converts indices to numbers, for comparisons: exact below 2^24.
    pub(crate) fn as_f32(&self) -> Self {
        let layout = Layout::contiguous(self.shape());
        let op = Op::Element(E::Copy);
        Self::make(self.context(), op, vec![self.clone()], layout, DType::F32)
    }

    /// Converts to `f32` or `f16`, rounded to the nearest.
    pub fn to(&self, dtype: DType) -> Self {
        if dtype == self.dtype() {
            return self.clone();
        }
        if dtype == DType::U32 || self.dtype() == DType::U32 {
            let what = format!("{} to {}", self.describe(), dtype.name());
            return self.refused(
                &[self],
                Problem::new(what, "indices are made with Context::indices"),
            );
        }
        let op = if dtype == DType::F16 {
            E::Round16
        } else {
            E::Copy
        };
        let layout = Layout::contiguous(self.shape());
        Self::make(
            self.context(),
            Op::Element(op),
            vec![self.clone()],
            layout,
            dtype,
        )
    }

    /// Returns the sum.
    #[must_use]
    pub fn add(&self, other: impl Operand) -> Self {
        self.binary(E::Add, other)
    }

    /// Returns the difference.
    #[must_use]
    pub fn sub(&self, other: impl Operand) -> Self {
        self.binary(E::Sub, other)
    }

    /// Returns the product.
    #[must_use]
    pub fn mul(&self, other: impl Operand) -> Self {
        self.binary(E::Mul, other)
    }

    /// Returns the quotient.
    #[must_use]
    pub fn div(&self, other: impl Operand) -> Self {
        self.binary(E::Div, other)
    }

    /// Returns the larger value; NaN if either is.
    #[must_use]
    pub fn maximum(&self, other: impl Operand) -> Self {
        self.binary(E::Max, other)
    }

    /// Returns the smaller value; NaN if either is.
    #[must_use]
    pub fn minimum(&self, other: impl Operand) -> Self {
        self.binary(E::Min, other)
    }

    /// Returns the power by a number. Small whole exponents and 0.5 are products and roots; negative bases have powers
    /// of whole exponents only.
    #[must_use]
    pub fn pow(&self, exponent: f32) -> Self {
        match exponent {
            1.0 => self.clone(),
            2.0 => self.mul(self),
            3.0 => self.mul(self).mul(self),
            0.5 => self.sqrt(),
            -1.0 => self.context().constant(1.0).div(self),
            _ => self.binary(E::Pow, exponent),
        }
    }

    /// Returns the power, element by element. The exponent's gradient is `log(x) x^exponent`: 0 where `x` is 0 and the
    /// exponent is not below 0, NaN where `x` is below 0.
    #[must_use]
    pub fn power(&self, exponent: &Self) -> Self {
        self.binary(E::Pow, exponent)
    }

    /// Returns 1 where this is greater, else 0.
    #[must_use]
    pub fn greater(&self, other: impl Operand) -> Self {
        self.binary(E::Greater, other)
    }

    /// Returns 1 where both are equal, else 0.
    #[must_use]
    pub fn equal(&self, other: impl Operand) -> Self {
        self.binary(E::Equal, other)
    }

    /// Returns `a` where this is not 0, else `b`.
    #[must_use]
    pub fn select(&self, a: impl Operand, b: impl Operand) -> Self {
        Self::element(E::Select, &[self, &a.tensor(self), &b.tensor(self)])
    }

    /// Clamps to two numbers. The gradient passes where `x` is between them or at one of them.
    #[must_use]
    pub fn clamp(&self, least: f32, most: f32) -> Self {
        if let Some(problem) = Self::unfit("clamp", &[self]) {
            return self.refused(&[self], problem);
        }
        Self::custom(Arc::new(Clamp(least, most)), &[self])
    }

    /// Computes `x * scale + bias`.
    #[must_use]
    pub fn affine(&self, scale: impl Operand, bias: impl Operand) -> Self {
        self.mul(scale).add(bias)
    }

    /// Computes `-x`.
    #[must_use]
    pub fn neg(&self) -> Self {
        self.unary(E::Neg)
    }

    /// Returns the absolute value.
    #[must_use]
    pub fn abs(&self) -> Self {
        self.unary(E::Abs)
    }

    /// Returns the sign: -1, 0, 1.
    #[must_use]
    pub fn sign(&self) -> Self {
        self.unary(E::Sign)
    }

    /// Returns e to the power of this.
    #[must_use]
    pub fn exp(&self) -> Self {
        self.unary(E::Exp)
    }

    /// Returns the natural logarithm.
    #[must_use]
    pub fn log(&self) -> Self {
        self.unary(E::Log)
    }

    /// Returns the square root.
    #[must_use]
    pub fn sqrt(&self) -> Self {
        self.unary(E::Sqrt)
    }

    /// Returns the sine of radians; on a GPU exact to a few units in the last place up to some thousands, and without
    /// meaning from 2.6e7 on.
    #[must_use]
    pub fn sin(&self) -> Self {
        self.unary(E::Sin)
    }

    /// Returns the cosine, as [`Self::sin`].
    #[must_use]
    pub fn cos(&self) -> Self {
        self.unary(E::Cos)
    }

    /// Returns the tangent, as [`Self::sin`].
    #[must_use]
    pub fn tan(&self) -> Self {
        self.unary(E::Tan)
    }

    /// Computes `1 / (1 + exp(-x))`.
    #[must_use]
    pub fn sigmoid(&self) -> Self {
        self.unary(E::Sigmoid)
    }

    /// Returns the hyperbolic tangent.
    #[must_use]
    pub fn tanh(&self) -> Self {
        self.unary(E::Tanh)
    }

    /// Computes `max(x, 0)`; NaN propagates.
    #[must_use]
    pub fn relu(&self) -> Self {
        self.unary(E::Relu)
    }

    /// Computes GELU in its tanh form: `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
    #[must_use]
    pub fn gelu(&self) -> Self {
        self.unary(E::Gelu)
    }

    /// Computes GELU by the error function: `0.5 x (1 + erf(x / sqrt(2)))`.
    #[must_use]
    pub fn gelu_erf(&self) -> Self {
        self.unary(E::GeluErf)
    }
}
