//! `+`, `-`, `*`, `/` and unary `-` on tensors and numbers: operators for the methods of the same name.

use super::operations::Operand;
use super::tensor::Tensor;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Defines an operator on a tensor and an [`Operand`], and on a number and a tensor.
macro_rules! operator {
    ($name:ident, $method:ident) => {
        impl<T: Operand> $name<T> for &Tensor {
            type Output = Tensor;

            fn $method(self, other: T) -> Tensor {
                Tensor::$method(self, other)
            }
        }

        impl<T: Operand> $name<T> for Tensor {
            type Output = Tensor;

            fn $method(self, other: T) -> Tensor {
                Tensor::$method(&self, other)
            }
        }

        impl $name<&Tensor> for f32 {
            type Output = Tensor;

            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::$method(&self.tensor(other), other)
            }
        }

        impl $name<Tensor> for f32 {
            type Output = Tensor;

            fn $method(self, other: Tensor) -> Tensor {
                Tensor::$method(&self.tensor(&other), other)
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl Neg for &Tensor {
    type Output = Tensor;

    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Tensor;

    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}
