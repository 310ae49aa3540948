//! Compiles a graph for all devices: kernels over buffers, in an order, in reused memory.
//!
//! 1. `nodes`: the nodes that outputs need, by number; views become accesses to the buffers of their roots.
//! 2. `groups`: nodes that share a kernel.
//! 3. `lower`: each group as a [`KernelPlan`]: a [`Body`] of instructions between loads and stores.
//! 4. `memory`: assignment of values to buffers, and the time at which buffers are free again.

mod added;
mod chain;
mod compile;
mod groups;
mod lower;
mod memory;
mod nodes;

pub(crate) use chain::{EVERYWHERE, Part, Tile};
pub(crate) use compile::compile;

use crate::graph::element::ElementOp;
use crate::graph::layout::Dim;
use crate::graph::tensor::{DType, ReduceOp, Tensor};
use crate::graph::windows::Unfold;

/// A buffer of the program.
#[derive(Debug, Clone)]
pub(crate) struct BufferPlan {
    pub dtype: DType,
    pub count: usize,
    pub place: Place,
}

/// Location of a buffer's values.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Memory of a leaf.
    Leaf(Tensor),
    /// Memory of the plan, by number.
    Slot(usize),
}

/// Elements of a buffer by a linear index over `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    pub buffer: usize,
    /// Axes, outermost first.
    pub dims: Vec<Dim>,
    pub offset: usize,
    pub count: usize,
    pub dtype: DType,
}

/// Source of a load, by a linear index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    Buffer(Access),
    /// Pieces along an axis: elements of one step along it, and for each piece its steps and its source.
    Cat(usize, Vec<(usize, Piece)>),
    /// Rows of a table by their numbers: table, numbers, rows, width.
    Gather(Access, Access, usize, usize),
    /// Pixels by tap and window.
    Unfold(Access, Unfold),
}

/// A piece of a [`Source::Cat`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Buffer(Access),
    Constant(f32),
}

impl Source {
    /// Returns all accesses of the source.
    pub fn accesses(&self) -> Vec<&Access> {
        match self {
            Self::Buffer(access) | Self::Unfold(access, _) => vec![access],
            Self::Gather(table, numbers, ..) => vec![table, numbers],
            Self::Cat(_, pieces) => {
                let buffers = pieces.iter().filter_map(|(_, piece)| match piece {
                    Piece::Buffer(access) => Some(access),
                    Piece::Constant(_) => None,
                });
                buffers.collect()
            }
        }
    }
}

/// Value of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Input(usize),
    Constant(f32),
    Element(ElementOp, Vec<usize>),
    /// Reduction over the row of the instruction.
    Reduce(ReduceOp, usize),
    /// The element of the preceding matrix product.
    Product,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Instruction {
    pub value: Value,
    /// True for one value per row, false for one per element.
    pub by_row: bool,
}

/// Loads, instructions and stores of a kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub inputs: Vec<Source>,
    pub instructions: Vec<Instruction>,
    /// Stored instructions, and the kernel's output of each.
    pub stores: Vec<(usize, usize)>,
}

impl Body {
    /// Returns the number of row reductions before each instruction can be computed.
    pub fn phases(&self) -> Vec<usize> {
        let mut phases: Vec<usize> = Vec::new();
        for instruction in &self.instructions {
            phases.push(match &instruction.value {
                Value::Element(_, operands) => {
                    operands.iter().map(|o| phases[*o]).max().unwrap_or(0)
                }
                Value::Reduce(_, operand) => phases[*operand] + 1,
                _ => 0,
            });
        }
        phases
    }
}

/// Index space of a kernel.
#[derive(Debug, Clone)]
pub(crate) enum Space {
    /// Elements.
    Map {
        count: usize,
    },
    /// Rows with reductions along them.
    Rows {
        rows: usize,
        n: usize,
    },
    /// `[outer, n, inner]` reduced over the middle; the instruction that is reduced.
    Columns {
        outer: usize,
        n: usize,
        inner: usize,
        op: ReduceOp,
        value: usize,
    },
    MatMul(Box<Product>),
    /// Consecutive products. Elementwise instructions are in the links, not in the kernel's body.
    Chain(Box<Chain>),
    /// `[numbers, width]` added up into `[rows, width]`.
    Scatter {
        rows: usize,
        width: usize,
        numbers: usize,
    },
}

/// A matrix product.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub batch: usize,
    pub m: usize,
    pub k: usize,
    pub n: usize,
    pub a: Matrix,
    pub b: Matrix,
    /// True to compute each element by itself, from memory.
    pub plain: bool,
    /// `Some` if subgroups may multiply it: the number of large tiles that keep a device busy.
    pub cooperative: Option<usize>,
    /// Another product that is added.
    pub more: Option<More>,
}

/// A second product `[m, k]` by `[k, n]`, weighted: its sum continues the sum of the first.
#[derive(Debug, Clone)]
pub(crate) struct More {
    pub k: usize,
    pub a: Matrix,
    pub b: Matrix,
    pub scale: f32,
}

impl Product {
    /// Returns the matrices of the product.
    pub fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let more = self.more.iter().flat_map(|more| [&more.a, &more.b]);
        [&self.a, &self.b].into_iter().chain(more)
    }
}

/// Consecutive products on the same rows: the first of `a`, `[m, k]`, each other of the result of the one before.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub m: usize,
    pub a: Matrix,
    pub links: Vec<Link>,
    /// Tile of a workgroup.
    pub tile: Tile,
}

/// A product of a chain, `[m, k]` by `[k, n]`, with its elementwise instructions.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub k: usize,
    pub n: usize,
    pub b: Matrix,
    pub body: Body,
    /// The instruction whose values the next one multiplies.
    pub passed: usize,
}

/// A batch of matrices in a buffer.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    pub buffer: usize,
    pub dtype: DType,
    pub offset: usize,
    /// Axes of the batch, outermost first.
    pub dims: Vec<Dim>,
    /// Distance of rows.
    pub row: usize,
    /// Distance of columns.
    pub column: usize,
    /// `Some` for an image, accessed by taps and windows: strides and batch are those of the unfolded matrix.
    pub unfold: Option<Unfold>,
}

/// A kernel.
#[derive(Debug, Clone)]
pub(crate) struct KernelPlan {
    pub label: String,
    pub space: Space,
    pub body: Body,
    /// Buffers that it writes.
    pub outputs: Vec<usize>,
}

impl KernelPlan {
    /// Returns the links of a chain; empty for other kernels.
    pub fn links(&self) -> &[Link] {
        match &self.space {
            Space::Chain(chain) => &chain.links,
            _ => &[],
        }
    }

    /// Iterates over the accesses of all loads.
    fn accesses(&self) -> impl Iterator<Item = &Access> {
        let links = self.links().iter().flat_map(|link| &link.body.inputs);
        let inputs = self.body.inputs.iter().chain(links);
        inputs.flat_map(Source::accesses)
    }

    /// Returns the buffers that the kernel reads.
    pub fn reads(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.accesses().map(|access| access.buffer).collect();
        match &self.space {
            Space::MatMul(product) => all.extend(product.matrices().map(|matrix| matrix.buffer)),
            Space::Chain(chain) => {
                all.push(chain.a.buffer);
                all.extend(chain.links.iter().map(|link| link.b.buffer));
            }
            _ => {}
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the elements of its instructions, and rows.
    pub fn extent(&self) -> (usize, usize) {
        match &self.space {
            Space::Map { count } => (*count, 0),
            Space::Rows { rows, n } => (rows * n, *rows),
            Space::Columns {
                outer, n, inner, ..
            } => (outer * n * inner, 0),
            Space::MatMul(product) => (product.batch * product.m * product.n, 0),
            Space::Scatter { width, numbers, .. } => (numbers * width, 0),
            Space::Chain(chain) => (chain.links.last().map_or(0, |link| chain.m * link.n), 0),
        }
    }

    /// Returns the operations by formula: a multiply-add counts as two.
    pub fn flops(&self) -> f64 {
        let (elements, rows) = self.extent();
        let each = |body: &Body, elements: usize| -> f64 {
            let each = body.instructions.iter().map(|instruction| {
                let count = if instruction.by_row { rows } else { elements } as f64;
                match &instruction.value {
                    Value::Element(op, _) => op.flops() * count,
                    Value::Reduce(..) => elements as f64,
                    _ => 0.0,
                }
            });
            each.sum()
        };
        let own = match &self.space {
            Space::MatMul(p) => {
                let more = p.more.as_ref().map_or(0, |more| more.k);
                2.0 * (p.batch * p.m * (p.k + more) * p.n) as f64
            }
            Space::Columns { .. } | Space::Scatter { .. } => elements as f64,
            Space::Chain(chain) => {
                let links = chain.links.iter().map(|link| {
                    let product = 2.0 * (chain.m * link.k * link.n) as f64;
                    product + each(&link.body, chain.m * link.n)
                });
                links.sum()
            }
            _ => 0.0,
        };
        own + each(&self.body, elements)
    }

    /// Returns the minimum bytes that it moves: each element read once, each element written once.
    pub fn bytes(&self, buffers: &[BufferPlan]) -> f64 {
        let mut seen: Vec<&Access> = Vec::new();
        let mut bytes = 0.0;
        for access in self.accesses() {
            if !seen.contains(&access) {
                let stretched = access.dims.iter().filter(|dim| dim.1 == 0);
                let times: usize = stretched.map(|dim| dim.0).product();
                bytes += (access.count / times.max(1) * access.dtype.bytes()) as f64;
                seen.push(access);
            }
        }
        if let Space::MatMul(p) = &self.space {
            let batch = |matrix: &Matrix| -> usize {
                let kept = matrix.dims.iter().filter(|dim| dim.1 != 0);
                kept.map(|dim| dim.0).product()
            };
            if let Some(more) = &p.more {
                bytes += (p.m * more.k * more.a.dtype.bytes()) as f64;
                bytes += (more.k * p.n * more.b.dtype.bytes()) as f64;
            }
            bytes += (batch(&p.a) * p.m * p.k * p.a.dtype.bytes()) as f64;
            bytes += match p.b.unfold {
                // Each image once, however often it is cut.
                Some(unfold) => {
                    let places = batch(&p.b) * p.k * p.n;
                    let images = places.div_ceil((unfold.taps() * unfold.windows()).max(1));
                    (images * unfold.pixels() * p.b.dtype.bytes()) as f64
                }
                None => (batch(&p.b) * p.k * p.n * p.b.dtype.bytes()) as f64,
            };
        }
        if let Space::Chain(chain) = &self.space {
            let first = chain.links.first().map_or(0, |link| chain.m * link.k);
            bytes += (first * chain.a.dtype.bytes()) as f64;
            let matrices = chain.links.iter();
            let matrices = matrices.map(|link| link.k * link.n * link.b.dtype.bytes());
            bytes += matrices.sum::<usize>() as f64;
        }
        let written = self.outputs.iter().map(|output| &buffers[*output]);
        bytes
            + written
                .map(|b| (b.count * b.dtype.bytes()) as f64)
                .sum::<f64>()
    }
}

/// Kernels in order, and their memory.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub kernels: Vec<KernelPlan>,
    pub buffers: Vec<BufferPlan>,
    /// Bytes of each slot.
    pub slots: Vec<usize>,
    /// The buffer of each output.
    pub outputs: Vec<usize>,
    /// Copies after all kernels: new values of leaves that no kernel can write in place.
    pub copies: Vec<(usize, usize)>,
}

/// Options of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// True if nodes may share kernels.
    pub fuse: bool,
    /// Maximum buffers that a kernel binds.
    pub bindings: usize,
    /// True if the kernel that reads a leaf may write its new value.
    pub in_place: bool,
    /// True if products are computed by the plainest kernel.
    pub plain_products: bool,
    /// Bytes that a workgroup may share.
    pub workgroup_bytes: usize,
    /// `Some` if subgroups may multiply matrices of 16-bit elements: the number of large tiles from which on tiles are
    /// large.
    pub cooperative: Option<usize>,
}
