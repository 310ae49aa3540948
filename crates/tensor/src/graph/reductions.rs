//! Sums, maxima, minima, means and variances over axes. Results are `f32` for every input type, and the order of
//! addition depends on the shape only.
//!
//! 1. Neighbouring axes are reduced together, others one after another.
//! 2. Few long rows or columns are cut into chunks that are reduced in parallel, and the results are reduced again:
//!    both are ordinary nodes. A remainder is a chunk of its own.

use super::layout::Layout;
use super::problem::Problem;
use super::tensor::{DType, Op, ReduceOp, Tensor};
use std::ops::Range;

/// Maximum length of a row that one workgroup reduces.
const LONGEST_ROW: usize = 16_384;
/// Elements of a chunk of a long row.
const ROW_CHUNKS: Range<usize> = 1024..8193;
/// Maximum length of a column that is not cut.
const LONGEST_COLUMN: usize = 128;
/// Number of parallel chunks of a long row, columns or rows that fill a large device.
const ENOUGH: usize = 1024;

/// Returns a length of chunks near `wanted` that divides `n`, a multiple of four if possible; `wanted` if there is
/// none.
fn near_divisor(n: usize, wanted: usize) -> usize {
    let near = || {
        (wanted / 2..=wanted)
            .rev()
            .chain(wanted + 1..=2 * wanted)
            .filter(|c| *c > 0 && n.is_multiple_of(*c))
    };
    near()
        .find(|c| c.is_multiple_of(4))
        .or_else(|| near().next())
        .unwrap_or(wanted)
}

impl Tensor {
    /// Reduces some axes, which remain with one element.
    fn reduced(&self, op: ReduceOp, axes: &[usize]) -> Self {
        if let Some(problem) = Self::unfit(op.name(), &[self]) {
            return self.refused(&[self], problem);
        }
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        if let Some(pair) = axes.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = format!("{} over axis {} of {}", op.name(), pair[0], self.describe());
            let hint = "it is named twice: name each axis once";
            return self.refused(&[self], Problem::new(what, hint));
        }
        if let Some(&axis) = axes.iter().find(|axis| **axis >= self.rank()) {
            let what = format!("{} over axis {axis} of {}", op.name(), self.describe());
            let hint = format!("it has {} axes, counted from 0", self.rank());
            return self.refused(&[self], Problem::new(what, hint));
        }
        let mut now = self.clone();
        // From the last on, neighbours together.
        while let Some(end) = axes.pop() {
            let mut first = end;
            while axes.last().is_some_and(|axis| axis + 1 == first) {
                first -= 1;
                axes.pop();
            }
            let mut shape = now.shape().to_vec();
            let size = |range: Range<usize>| shape[range].iter().product::<usize>();
            let cut = [
                size(0..first),
                size(first..end + 1),
                size(end + 1..shape.len()),
            ];
            let flat = now.reshape(&cut).reduced_middle(op);
            shape[first..=end].fill(1);
            now = flat.reshape(&shape);
        }
        now
    }

    /// Reduces `[outer, n, inner]` to `[outer, 1, inner]`.
    fn reduced_middle(&self, op: ReduceOp) -> Self {
        if self.0.problem.is_some() {
            return self.clone();
        }
        let &[outer, n, inner] = self.shape() else {
            return self.clone();
        };
        if n == 1 {
            return self.to(DType::F32);
        }
        let chunk = match inner {
            1 if n > LONGEST_ROW => {
                let wanted = (n * outer / ENOUGH).next_power_of_two();
                Some(near_divisor(
                    n,
                    wanted.clamp(ROW_CHUNKS.start, ROW_CHUNKS.end - 1),
                ))
            }
            1 => None,
            _ if n > LONGEST_COLUMN && outer * inner < ENOUGH * 256 => {
                // A few hundred thousand elements at once are enough, and the length of chunks should be at least their
                // number.
                let wanted = (n * outer * inner / (ENOUGH * 256)).next_power_of_two();
                let least = n.isqrt().next_power_of_two().max(16);
                Some(near_divisor(n, wanted.max(least)))
            }
            _ => None,
        };
        let Some(chunk) = chunk.filter(|chunk| n > *chunk) else {
            let layout = Layout::contiguous(&[outer, 1, inner]);
            let op = Op::Reduce(op, [outer, n, inner]);
            return Self::make(self.context(), op, vec![self.clone()], layout, DType::F32);
        };
        let whole = n / chunk * chunk;
        let main = self.slice_if(1, 0, whole);
        let main = main
            .reshape(&[outer * (whole / chunk), chunk, inner])
            .reduced_middle(op);
        let main = main
            .reshape(&[outer, whole / chunk, inner])
            .reduced_middle(op);
        if whole == n {
            return main;
        }
        let rest = self.slice(1, whole, n - whole).reduced_middle(op);
        Self::element(op.element(), &[&main, &rest])
    }

    fn slice_if(&self, axis: usize, start: usize, length: usize) -> Self {
        match self.shape()[axis] == length {
            true => self.clone(),
            false => self.slice(axis, start, length),
        }
    }

    fn all_axes(&self) -> Vec<usize> {
        (0..self.rank()).collect()
    }

    /// Removes the axes of one element that the reduction of `axes` produced.
    fn dropped(&self, axes: &[usize]) -> Self {
        let kept = self
            .shape()
            .iter()
            .enumerate()
            .filter(|(axis, _)| !axes.contains(axis));
        let shape: Vec<usize> = kept.map(|(_, size)| *size).collect();
        if self.0.problem.is_some() {
            self.clone()
        } else {
            self.reshape(&shape)
        }
    }

    /// Returns the sum of all elements: no axes. The sum of no elements is 0.
    #[must_use]
    pub fn sum(&self) -> Self {
        self.sum_axes(&self.all_axes())
    }

    /// Returns sums over axes, which are removed.
    #[must_use]
    pub fn sum_axes(&self, axes: &[usize]) -> Self {
        self.reduced(ReduceOp::Sum, axes).dropped(axes)
    }

    /// Returns sums over axes, which remain with one element.
    #[must_use]
    pub fn sum_keep(&self, axes: &[usize]) -> Self {
        self.reduced(ReduceOp::Sum, axes)
    }

    /// Returns the largest element; NaN if there is one; minus infinity for no elements.
    #[must_use]
    pub fn max(&self) -> Self {
        self.max_keep(&self.all_axes()).dropped(&self.all_axes())
    }

    /// [`Self::max`] over axes, which remain with one element.
    #[must_use]
    pub fn max_keep(&self, axes: &[usize]) -> Self {
        self.reduced(ReduceOp::Max, axes)
    }

    /// Returns the smallest element; NaN if there is one; infinity for no elements.
    #[must_use]
    pub fn min(&self) -> Self {
        self.min_keep(&self.all_axes()).dropped(&self.all_axes())
    }

    /// [`Self::min`] over axes, which remain with one element.
    #[must_use]
    pub fn min_keep(&self, axes: &[usize]) -> Self {
        self.reduced(ReduceOp::Min, axes)
    }

    fn count_of(&self, axes: &[usize]) -> f32 {
        let sizes = axes.iter().filter_map(|axis| self.shape().get(*axis));
        sizes.product::<usize>() as f32
    }

    /// Returns the mean of all elements; NaN for no elements.
    #[must_use]
    pub fn mean(&self) -> Self {
        self.mean_axes(&self.all_axes())
    }

    /// Returns means over axes, which are removed.
    #[must_use]
    pub fn mean_axes(&self, axes: &[usize]) -> Self {
        self.mean_keep(axes).dropped(axes)
    }

    /// Returns means over axes, which remain with one element.
    #[must_use]
    pub fn mean_keep(&self, axes: &[usize]) -> Self {
        self.sum_keep(axes).div(self.count_of(axes))
    }

    /// Returns the variance of all elements about their mean, divided by their number.
    #[must_use]
    pub fn variance(&self) -> Self {
        let axes = self.all_axes();
        self.variance_keep(&axes).dropped(&axes)
    }

    /// [`Self::variance`] over axes, which remain with one element.
    #[must_use]
    pub fn variance_keep(&self, axes: &[usize]) -> Self {
        let away = self.to(DType::F32).sub(self.mean_keep(axes));
        away.mul(&away).mean_keep(axes)
    }
}
