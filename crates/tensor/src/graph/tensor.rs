//! [`Tensor`]: a node of a graph, or values on a device. Making one computes nothing.

use super::element::ElementOp;
use super::layout::Layout;
use super::problem::Problem;
use super::windows::Unfold;
use crate::context::{Context, Storage};
use dapple_base::Result;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How elements are stored. Arithmetic is `f32` whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754 binary16).
    F16,
    /// Unsigned numbers: what [`Tensor::embedding`] looks up.
    U32,
}

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::U32 => 4,
        }
    }

    /// `f32`, `f16`, `u32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U32 => "u32",
        }
    }
}

/// A tensor: values on a device, or what is to be computed. Clones are the same tensor.
///
/// Operations build a graph; [`Tensor::read`] or a [`Plan`](crate::Plan) runs it. A mistake (shapes that do not fit, two
/// devices) is kept in the result and reported there, so calls chain without `?`.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Node>);

/// What a tensor is.
pub(crate) struct Node {
    /// Grows: inputs have smaller ones.
    pub id: u64,
    pub context: Context,
    pub op: Op,
    pub inputs: Vec<Tensor>,
    /// Where its elements are in the buffer of `root`, or of itself.
    pub layout: Layout,
    pub dtype: DType,
    /// Of a view: whose buffer it looks at.
    pub root: Option<Tensor>,
    pub problem: Option<Arc<Problem>>,
    pub name: OnceLock<String>,
}

/// What is done.
pub(crate) enum Op {
    /// Values on the device.
    Leaf(Storage),
    /// One number, written into kernels.
    Constant(f32),
    /// Nothing: it could not be made.
    Refused,
    View(View),
    /// What `inputs[0]` is, with a derivative with respect to `inputs[1..]` of its own.
    Custom(Arc<dyn CustomOp>),
    Element(ElementOp),
    /// Along an axis.
    Cat(usize),
    /// Rows of `inputs[0]` by the numbers in `inputs[1]`.
    Gather,
    /// Rows of `inputs[0]` added up by the numbers in `inputs[1]`.
    ScatterAdd,
    /// Over the middle of `[outer, n, inner]`.
    Reduce(ReduceOp, [usize; 3]),
    /// `[.., m, k]` by `[.., k, n]`, batches alike.
    MatMul,
    /// Pixels of `[n, channels, rows, columns]` by tap and window.
    Unfold(Unfold),
}

/// Another look at the same values.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Reshape,
    Permute(Vec<usize>),
    Expand,
    Slice {
        axis: usize,
        start: usize,
    },
    /// The same, without a derivative.
    Detach,
}

/// How rows become one number.
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

    /// What nothing reduces to.
    pub fn identity(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        }
    }

    /// What joins two.
    pub fn element(self) -> ElementOp {
        match self {
            Self::Sum => ElementOp::Add,
            Self::Max => ElementOp::Max,
            Self::Min => ElementOp::Min,
        }
    }
}

/// An operation with a backward of its own: [`Tensor::custom`].
pub trait CustomOp: Send + Sync {
    /// What it is called in errors.
    fn name(&self) -> &str;

    /// What it computes, of other operations.
    fn forward(&self, inputs: &[Tensor]) -> Tensor;

    /// The gradient with respect to each input, of its shape, given that of the output. `None` where it has none.
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
        // The first mistake is the one that is reported.
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

    /// A view of this with another layout of the same buffer.
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

    /// The tensor whose buffer this one's elements are in: itself, if it is no view.
    pub(crate) fn root(&self) -> &Self {
        let mut at = self;
        // The root of a custom operation may itself be a view.
        while let Some(root) = &at.0.root {
            at = root;
        }
        at
    }

    /// A tensor that could not be made, because of the first mistake of its inputs, else of `problem`.
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

    /// Sizes of its axes.
    pub fn shape(&self) -> &[usize] {
        &self.0.layout.shape
    }

    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// How many elements it has.
    pub fn count(&self) -> usize {
        self.0.layout.count()
    }

    /// How its elements are stored.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where it is computed.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Names it for errors and listings; the first name stays.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let _ = self.0.name.set(name.to_owned());
        self
    }

    /// Whether it could be made.
    ///
    /// # Errors
    /// The first mistake in the operations that lead to it.
    pub fn check(&self) -> Result<()> {
        self.0
            .problem
            .as_ref()
            .map_or(Ok(()), |problem| Err(problem.error()))
    }

    /// For errors: name or operation, type and shape.
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
    /// What it is called.
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
