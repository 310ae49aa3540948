//! [`Tensor`]: a node of a graph, or values on a device. Creating a tensor computes nothing.

use super::element::ElementOp;
use super::layout::Layout;
use super::problem::Problem;
use super::windows::Unfold;
use crate::context::{Context, Storage};
use dapple_base::Result;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Storage type of elements. Arithmetic is `f32` for all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754 binary16).
    F16,
    /// Unsigned numbers: indices for [`Tensor::embedding`].
    U32,
}

impl DType {
    /// Returns the bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::U32 => 4,
        }
    }

    /// Returns `f32`, `f16` or `u32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U32 => "u32",
        }
    }
}

/// A tensor: values on a device, or an operation to compute. Clones are the same tensor.
///
/// Operations build a graph; [`Tensor::read`] or a [`Plan`](crate::Plan) runs it. A mistake (shapes that do not fit,
/// two devices) is stored in the result and reported there, so calls chain without `?`.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Node>);

/// Content of a tensor.
pub(crate) struct Node {
    /// Number that grows: inputs have smaller ones.
    pub id: u64,
    pub context: Context,
    pub op: Op,
    pub inputs: Vec<Tensor>,
    /// Elements in the buffer of `root`, or of the node itself.
    pub layout: Layout,
    pub dtype: DType,
    /// Owner of the buffer, for a view.
    pub root: Option<Tensor>,
    pub problem: Option<Arc<Problem>>,
    pub name: OnceLock<String>,
}

/// Operation of a node.
pub(crate) enum Op {
    /// Values on the device.
    Leaf(Storage),
    /// One number, written into kernels.
    Constant(f32),
    /// A tensor that could not be created.
    Refused,
    View(View),
    /// Value of `inputs[0]`, with its own derivative with respect to `inputs[1..]`.
    Custom(Arc<dyn CustomOp>),
    Element(ElementOp),
    /// Concatenation along an axis.
    Cat(usize),
    /// Rows of `inputs[0]` by the numbers in `inputs[1]`.
    Gather,
    /// Rows of `inputs[0]` added up by the numbers in `inputs[1]`.
    ScatterAdd,
    /// Reduction over the middle of `[outer, n, inner]`.
    Reduce(ReduceOp, [usize; 3]),
    /// Product of `[.., m, k]` and `[.., k, n]`, with equal batches.
    MatMul,
    /// Pixels of `[n, channels, rows, columns]` by tap and window.
    Unfold(Unfold),
}

/// View of the same values.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Reshape,
    Permute(Vec<usize>),
    Expand,
    Slice {
        axis: usize,
        start: usize,
    },
    /// View without a derivative.
    Detach,
}

/// Reduction of rows to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReduceOp {
    Sum,
    Max,
    Min,
}

impl ReduceOp {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// Returns the result for no elements.
    pub fn identity(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        }
    }

    /// Returns the operation that joins two values.
    pub fn element(self) -> ElementOp {
        match self {
            Self::Sum => ElementOp::Add,
            Self::Max => ElementOp::Max,
            Self::Min => ElementOp::Min,
        }
    }
}

/// An operation with its own backward pass: [`Tensor::custom`].
pub trait CustomOp: Send + Sync {
    /// Returns the name in errors.
    fn name(&self) -> &str;

    /// Computes the result by other operations.
    fn forward(&self, inputs: &[Tensor]) -> Tensor;

    /// Returns the gradient with respect to each input, of its shape, from the gradient of the output. `None` for
    /// inputs without a gradient.
    fn backward(
        &self,
        inputs: &[Tensor],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Vec<Option<Tensor>>;
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Tensor {
    pub(crate) fn make(
        context: &Context,
        op: Op,
        inputs: Vec<Self>,
        layout: Layout,
        dtype: DType,
    ) -> Self {
        // The first mistake is reported.
        let problem = inputs.iter().find_map(|input| input.0.problem.clone());
        let problem = problem.or_else(|| {
            let most = u32::MAX as usize / 8;
            let is_read_only = matches!(op, Op::View(_) | Op::Unfold(_));
            (layout.count() > most && !is_read_only).then(|| {
                Problem::new(
                    format!(
                        "a tensor of {:?} has more than {most} elements",
                        layout.shape
                    ),
                    "cut it into parts along its first axis",
                )
            })
        });
        Self::node(context, op, inputs, (layout, dtype), (None, problem))
    }

    pub(crate) fn node(
        context: &Context,
        op: Op,
        inputs: Vec<Self>,
        (layout, dtype): (Layout, DType),
        (root, problem): (Option<Self>, Option<Arc<Problem>>),
    ) -> Self {
        Self(Arc::new(Node {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            context: context.clone(),
            op,
            inputs,
            layout,
            dtype,
            root,
            problem,
            name: OnceLock::new(),
        }))
    }

    /// Returns a view of this with another layout of the same buffer.
    pub(crate) fn view(&self, view: View, layout: Layout) -> Self {
        let root = self.0.root.clone().unwrap_or_else(|| self.clone());
        let problem = self.0.problem.clone();
        let made = (layout, self.0.dtype);
        Self::node(
            &self.0.context,
            Op::View(view),
            vec![self.clone()],
            made,
            (Some(root), problem),
        )
    }

    /// Returns the tensor whose buffer contains this tensor's elements: this tensor itself, if it is no view.
    pub(crate) fn root(&self) -> &Self {
        let mut at = self;
        // The root of a custom operation may itself be a view.
        while let Some(root) = &at.0.root {
            at = root;
        }
        at
    }

    /// Returns a tensor that could not be created, with the first mistake of its inputs, else with `problem`.
    pub(crate) fn refused(&self, inputs: &[&Self], problem: Arc<Problem>) -> Self {
        let first = inputs.iter().find_map(|input| input.0.problem.clone());
        let problem = first.unwrap_or(problem);
        let made = (Layout::contiguous(&[]), DType::F32);
        Self::node(
            &self.0.context,
            Op::Refused,
            Vec::new(),
            made,
            (None, Some(problem)),
        )
    }

    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.0.layout.shape
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.0.layout.count()
    }

    /// Returns the storage type of elements.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the context that computes it.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Names the tensor for errors and listings; the first name remains.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let _ = self.0.name.set(name.to_owned());
        self
    }

    /// Checks that the tensor could be created.
    ///
    /// # Errors
    /// The first mistake in the operations that lead to it.
    pub fn check(&self) -> Result<()> {
        self.0
            .problem
            .as_ref()
            .map_or(Ok(()), |problem| Err(problem.error()))
    }

    /// Describes the tensor for errors: name or operation, type and shape.
    pub(crate) fn describe(&self) -> String {
        let node = &self.0;
        let name = node
            .name
            .get()
            .map_or_else(|| node.op.title(), |name| format!("\"{name}\""));
        format!("{name} {}{:?}", node.dtype.name(), self.shape())
    }
}

impl Op {
    /// Returns the name, or the operation.
    pub fn title(&self) -> String {
        match self {
            Self::Leaf(_) => "values".to_owned(),
            Self::Constant(value) => format!("{value}"),
            Self::Refused => "nothing".to_owned(),
            Self::View(View::Reshape) => "reshape".to_owned(),
            Self::View(View::Permute(_)) => "permute".to_owned(),
            Self::View(View::Expand) => "expand".to_owned(),
            Self::View(View::Slice { .. }) => "slice".to_owned(),
            Self::View(View::Detach) => "detach".to_owned(),
            Self::Custom(op) => op.name().to_owned(),
            Self::Element(op) => op.title().to_owned(),
            Self::Cat(_) => "cat".to_owned(),
            Self::Gather => "embedding".to_owned(),
            Self::ScatterAdd => "scatter_add".to_owned(),
            Self::Reduce(op, _) => op.name().to_owned(),
            Self::MatMul => "matmul".to_owned(),
            Self::Unfold(_) => "unfold".to_owned(),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// A chain of operations may be longer than the stack is deep.
impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.inputs);
        pending.extend(self.root.take());
        while let Some(tensor) = pending.pop() {
            if let Some(mut node) = Arc::into_inner(tensor.0) {
                pending.append(&mut node.inputs);
                pending.extend(node.root.take());
            }
        }
    }
}
