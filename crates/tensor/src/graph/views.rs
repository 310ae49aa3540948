//! Views (reshape, permute, expand, slice), copies, and operations that combine tensors: cat, embedding.

use super::element::ElementOp;
use super::layout::{Layout, broadcast};
use super::problem::Problem;
use super::tensor::{DType, Op, Tensor, View};
use crate::context::Context;

/// Maximum tensors that one kernel concatenates; more are concatenated by several kernels.
const MOST_PIECES: usize = 6;

impl Tensor {
    fn no_axis(&self, op: &str, axis: usize) -> Self {
        let what = format!("{op} along axis {axis} of {}", self.describe());
        let hint = format!("it has {} axes, counted from 0", self.rank());
        self.refused(&[self], Problem::new(what, hint))
    }

    /// Returns the same elements in another shape: a view, or a copy (a kernel named `copy`) where strides do not allow
    /// it.
    #[must_use]
    pub fn reshape(&self, shape: &[usize]) -> Self {
        if self.shape() == shape {
            return self.clone();
        }
        if shape.iter().product::<usize>() != self.count() {
            let what = format!("{} reshaped to {shape:?}", self.describe());
            return self.refused(
                &[self],
                Problem::new(what, "the sizes must multiply to as many elements"),
            );
        }
        match self.0.layout.reshaped(shape) {
            Some(layout) => self.view(View::Reshape, layout),
            None => self.copied().reshape(shape),
        }
    }

    /// Returns the row-major tensor without gaps: this tensor, or a copy.
    #[must_use]
    pub fn contiguous(&self) -> Self {
        let is_plain = self.0.layout.is_identity(self.root().count()) && !self.is_constant();
        if is_plain {
            self.clone()
        } else {
            self.copied()
        }
    }

    /// Returns a tensor in memory, for kernels that take no constants.
    pub(crate) fn in_memory(&self) -> Self {
        match self.is_constant() {
            true => self.copied(),
            false => self.clone(),
        }
    }

    /// Returns a row-major copy. Kernels compute in `f32`, which does not hold all indices.
    pub(crate) fn copied(&self) -> Self {
        if self.dtype() == DType::U32 {
            let what = format!("a copy of {}, which holds indices", self.describe());
            let hint = "make these indices with Context::indices, in this order";
            return self.refused(&[self], Problem::new(what, hint));
        }
        let op = match self.dtype() {
            DType::F16 => ElementOp::Round16,
            _ => ElementOp::Copy,
        };
        let layout = Layout::contiguous(self.shape());
        Self::make(
            self.context(),
            Op::Element(op),
            vec![self.clone()],
            layout,
            self.dtype(),
        )
    }

    /// Returns the tensor with its axes in another order: axis `i` of the result is axis `axes[i]` of this.
    #[must_use]
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut seen: Vec<usize> = axes.to_vec();
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..self.rank()) {
            let what = format!("{} permuted by {axes:?}", self.describe());
            return self.refused(
                &[self],
                Problem::new(what, "name each axis once, counted from 0"),
            );
        }
        self.view(View::Permute(axes.to_vec()), self.0.layout.permuted(axes))
    }

    /// Exchanges the last two axes.
    #[must_use]
    pub fn t(&self) -> Self {
        let rank = self.rank();
        if rank < 2 {
            let what = format!("the transpose of {}", self.describe());
            return self.refused(
                &[self],
                Problem::new(what, "it needs two axes: see reshape"),
            );
        }
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        self.permute(&axes)
    }

    /// Returns the tensor with an axis of one element inserted before `axis`.
    #[must_use]
    pub fn unsqueeze(&self, axis: usize) -> Self {
        if axis > self.rank() {
            return self.no_axis("unsqueeze", axis);
        }
        let mut shape = self.shape().to_vec();
        shape.insert(axis, 1);
        self.reshape(&shape)
    }

    /// Broadcasts to a shape: a view.
    #[must_use]
    pub fn expand(&self, shape: &[usize]) -> Self {
        if broadcast(self.shape(), shape).as_deref() != Some(shape) {
            let what = format!("{} expanded to {shape:?}", self.describe());
            return self.refused(
                &[self],
                Problem::new(
                    what,
                    "only axes of one element stretch, and new ones come first",
                ),
            );
        }
        self.expanded_to(shape)
    }

    pub(crate) fn expanded_to(&self, shape: &[usize]) -> Self {
        if self.shape() == shape || self.0.problem.is_some() {
            return self.clone();
        }
        self.view(View::Expand, self.0.layout.expanded(shape))
    }

    /// Returns `length` elements of an axis from `start` on: a view.
    #[must_use]
    pub fn slice(&self, axis: usize, start: usize, length: usize) -> Self {
        if axis >= self.rank() {
            return self.no_axis("slice", axis);
        }
        let end = start.checked_add(length);
        if end.is_none_or(|end| end > self.shape()[axis]) {
            let what = format!(
                "elements {start} to {start} + {length} along axis {axis} of {}",
                self.describe()
            );
            return self.refused(
                &[self],
                Problem::new(what, format!("it has {} there", self.shape()[axis])),
            );
        }
        self.view(
            View::Slice { axis, start },
            self.0.layout.sliced(axis, start, length),
        )
    }

    /// Detaches the values: gradients do not pass through the result.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.view(View::Detach, self.0.layout.clone())
    }

    /// Concatenates tensors along an axis. All other axes are equal; at least one tensor.
    #[must_use]
    pub fn cat(tensors: &[&Self], axis: usize) -> Self {
        let Some(&first) = tensors.first() else {
            let problem = Problem::new("cat of no tensors", "give one tensor at least");
            return Context::cpu().refused(problem);
        };
        if let Some(problem) = Self::unfit("cat", tensors) {
            return first.refused(tensors, problem);
        }
        if axis >= first.rank() {
            return first.no_axis("cat", axis);
        }
        for other in tensors {
            let fits = other.rank() == first.rank()
                && (0..first.rank()).all(|i| i == axis || other.shape()[i] == first.shape()[i]);
            if !fits {
                let what = format!(
                    "cat along axis {axis} of {} and {}",
                    first.describe(),
                    other.describe()
                );
                let hint = "all sizes but that axis' must be equal";
                return first.refused(tensors, Problem::new(what, hint));
            }
        }
        if tensors.len() == 1 {
            return first.clone();
        }
        if tensors.len() > MOST_PIECES {
            let parts: Vec<Self> = tensors
                .chunks(MOST_PIECES)
                .map(|part| Self::cat(part, axis))
                .collect();
            return Self::cat(&parts.iter().collect::<Vec<_>>(), axis);
        }
        let mut shape = first.shape().to_vec();
        shape[axis] = tensors.iter().map(|tensor| tensor.shape()[axis]).sum();
        let inputs = tensors.iter().map(|tensor| (*tensor).clone()).collect();
        let layout = Layout::contiguous(&shape);
        let made = Self::make(first.context(), Op::Cat(axis), inputs, layout, DType::F32);
        made.stored_as(Self::joint_dtype(tensors))
    }

    /// Returns rows of this table (`[rows, width]`) by their numbers (`u32`, any shape): of shape `[.., width]`. A
    /// number beyond the table gives a row of NaN. The gradient adds rows up in the order of the numbers. On a GPU, a
    /// gradient with many contiguous numbers sorts them first; otherwise every row of the table reads all numbers.
    #[must_use]
    pub fn embedding(&self, numbers: &Self) -> Self {
        let operands = [self, numbers];
        let hint = if numbers.dtype() != DType::U32 {
            Some("make the numbers with Context::indices")
        } else if self.rank() != 2 {
            Some("the table needs two axes, rows and width")
        } else if self.dtype() == DType::U32 {
            Some("the table is of f32 or f16")
        } else if numbers.context() != self.context() {
            Some("make both from one context")
        } else {
            None
        };
        if let Some(hint) = hint {
            let what = format!("embedding of {} by {}", self.describe(), numbers.describe());
            return self.refused(&operands, Problem::new(what, hint));
        }
        let mut shape = numbers.shape().to_vec();
        shape.push(self.shape()[1]);
        let layout = Layout::contiguous(&shape);
        let inputs = vec![self.in_memory(), numbers.clone()];
        let made = Self::make(self.context(), Op::Gather, inputs, layout, DType::F32);
        made.stored_as(self.dtype())
    }

    /// Returns the gradient of [`Self::embedding`]: `[.., width]` added up into `[rows, width]`.
    pub(crate) fn scatter_add(&self, numbers: &Self, rows: usize) -> Self {
        let width = self.shape().last().copied().unwrap_or(1);
        let flat = self.in_memory().reshape(&[numbers.count(), width]);
        let layout = Layout::contiguous(&[rows, width]);
        let inputs = vec![flat, numbers.reshape(&[numbers.count()])];
        Self::make(self.context(), Op::ScatterAdd, inputs, layout, DType::F32)
    }
}
