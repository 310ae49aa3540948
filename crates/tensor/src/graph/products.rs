//! Matrix products: batches, transposes by strides, long sums in parts.

use super::layout::{Layout, broadcast};
use super::problem::Problem;
use super::tensor::{DType, Op, Tensor};

/// Elements of a product below which a large device is idle: long sums are cut.
const FEW: usize = 128 * 128;
/// Minimum length of the parts of a sum.
const LEAST_PART: usize = 1024;
/// Maximum number of parts.
const MOST_PARTS: usize = 512;

impl Tensor {
    /// Returns the matrix product of the last two axes, `[.., m, k]` by `[.., k, n]`; axes before them broadcast. Sums
    /// are `f32`; the result of 16-bit operands is rounded to 16 bits. Transposed views cost no copy.
    #[must_use]
    pub fn matmul(&self, other: &Self) -> Self {
        let operands = [self, other];
        if let Some(problem) = Self::unfit("matmul", &operands) {
            return self.refused(&operands, problem);
        }
        let wrong = |hint: &str| {
            let what = format!("matmul of {} and {}", self.describe(), other.describe());
            self.refused(&operands, Problem::new(what, hint))
        };
        let (rank, other_rank) = (self.rank(), other.rank());
        if rank < 2 || other_rank < 2 {
            return wrong("both need two axes at least: see unsqueeze");
        }
        if self.shape()[rank - 1] != other.shape()[other_rank - 2] {
            return wrong(
                "the last size of the first must be the last but one of the second: see t()",
            );
        }
        let dtype = Self::joint_dtype(&operands);
        let n = other.shape()[other_rank - 1];
        if other_rank == 2 && rank > 2 {
            // One matrix for a whole batch: a larger product.
            let k = self.shape()[rank - 1];
            let rows = self.shape()[..rank - 1].iter().product();
            let flat = self.reshape(&[rows, k]).product(other);
            let mut shape = self.shape().to_vec();
            shape[rank - 1] = n;
            return flat.reshape(&shape).stored_as(dtype);
        }
        let batches = broadcast(&self.shape()[..rank - 2], &other.shape()[..other_rank - 2]);
        let Some(batches) = batches else {
            return wrong("the axes before the last two must be equal or 1");
        };
        let with = |tensor: &Self| {
            let mut shape = batches.clone();
            shape.extend(&tensor.shape()[tensor.rank() - 2..]);
            tensor.expanded_to(&shape)
        };
        with(self).product(&with(other)).stored_as(dtype)
    }

    /// Returns the product of equal batches.
    fn product(&self, other: &Self) -> Self {
        self.in_memory().product_in_memory(&other.in_memory())
    }

    fn product_in_memory(&self, other: &Self) -> Self {
        if let Some(parts) = self.parts(other) {
            return self.product_in_parts(other, parts);
        }
        let rank = self.rank();
        let mut shape = self.shape().to_vec();
        shape[rank - 1] = other.shape()[rank - 1];
        let layout = Layout::contiguous(&shape);
        let inputs = vec![self.clone(), other.clone()];
        Self::make(self.context(), Op::MatMul, inputs, layout, DType::F32)
    }

    /// Returns the number of parts of equal length that a long sum is cut into. A remainder is a sum of its own.
    fn parts(&self, other: &Self) -> Option<usize> {
        if self.rank() != 2 || self.0.problem.is_some() || other.0.problem.is_some() {
            return None;
        }
        let (m, k, n) = (self.shape()[0], self.shape()[1], other.shape()[1]);
        // Another kernel handles few rows or columns, and cuts short sums by itself.
        if m * n > FEW || m * n == 0 || ((m <= 4 || n <= 4) && k < 8 * LEAST_PART) {
            return None;
        }
        let most = (k / LEAST_PART).min(MOST_PARTS);
        let whole = (2..=most).rev().find(|parts| k.is_multiple_of(*parts));
        match whole {
            // A device with only a few parts is idle.
            Some(parts) if parts >= most / 4 => Some(parts),
            _ => Some(most).filter(|most| *most > 1),
        }
    }

    fn product_in_parts(&self, other: &Self, parts: usize) -> Self {
        let (m, k, n) = (self.shape()[0], self.shape()[1], other.shape()[1]);
        let rest = k % parts;
        if rest > 0 {
            let cut = |start, length| {
                let (a, b) = (self.slice(1, start, length), other.slice(0, start, length));
                (a, b)
            };
            let ((a, b), (last_a, last_b)) = (cut(0, k - rest), cut(k - rest, rest));
            return a
                .product_in_parts(&b, parts)
                .add(last_a.product_in_memory(&last_b));
        }
        let a = self.reshape(&[m, parts, k / parts]).permute(&[1, 0, 2]);
        let b = other.reshape(&[parts, k / parts, n]);
        let inputs = vec![a, b];
        let layout = Layout::contiguous(&[parts, m, n]);
        let each = Self::make(self.context(), Op::MatMul, inputs, layout, DType::F32);
        each.sum_axes(&[0])
    }
}
