//! Lowers groups to kernels: loads, order of instructions, stores.

use super::added::Added;
use super::groups::{Group, Shape, label};
use super::nodes::Nodes;
use super::{
    Access, Body, Chain, Instruction, KernelPlan, Limits, Link, Matrix, More, Piece, Product,
    Source, Space, Tile, Value,
};
use crate::graph::layout::Layout;
use crate::graph::tensor::{Op, Tensor};
use dapple_base::{Error, Result};
use std::collections::HashMap;

/// Returns kernels whose buffers are the numbers of nodes.
pub(crate) fn lower(nodes: &Nodes, groups: &[Group], limits: Limits) -> Result<Vec<KernelPlan>> {
    let kernels = groups.iter().map(|group| match group.shape {
        Shape::Chain => chain(nodes, group, limits),
        shape => Lowering::new(nodes, &group.nodes, shape, limits).kernel(group),
    });
    kernels.collect()
}

/// Lowers consecutive products, each with its own body.
fn chain(nodes: &Nodes, group: &Group, limits: Limits) -> Result<KernelPlan> {
    let mut outputs = Vec::new();
    let mut links: Vec<Link> = Vec::new();
    let mut first = None;
    for (number, inside) in group.links.iter().enumerate() {
        let mut lowering = Lowering::new(nodes, inside, Shape::MatMul, limits);
        let product = inside[0];
        let tensor = &nodes.list[product];
        let (a, b) = (&tensor.0.inputs[0], &tensor.0.inputs[1]);
        let &[m, n] = tensor.shape() else {
            return Err(Error::internal("a chain of batches"));
        };
        let instruction = lowering.push(Value::Product, false);
        lowering.of.insert(product, instruction);
        lowering.compute_all(&inside[1..])?;
        lowering.store(group, &mut outputs);
        let next = group.links.get(number + 1);
        let passed = match next {
            Some(next) => lowering.operand(&nodes.list[next[0]].0.inputs[0], false)?,
            None => instruction,
        };
        first.get_or_insert((m, lowering.matrix(a)));
        links.push(Link {
            k: a.shape()[1],
            n,
            b: lowering.matrix(b),
            body: lowering.body,
            passed,
        });
    }
    let widths = links.first().map(|link| link.k);
    let widths: Vec<usize> = widths
        .into_iter()
        .chain(links.iter().map(|link| link.n))
        .collect();
    let made = first.and_then(|(m, a)| {
        let tile = Tile::for_rows(m, &widths, limits.workgroup_bytes)?;
        Some(Chain { m, a, links, tile })
    });
    let made = made.ok_or_else(|| Error::internal("a chain that a workgroup cannot hold"))?;
    Ok(KernelPlan {
        label: label(nodes, group),
        space: Space::Chain(Box::new(made)),
        body: Body::default(),
        outputs,
    })
}

struct Lowering<'a> {
    nodes: &'a Nodes,
    inside: &'a [usize],
    body: Body,
    /// Instruction of each node.
    of: HashMap<usize, usize>,
    /// Rows, and elements of each.
    rows: Option<(usize, usize)>,
    limits: Limits,
    /// A node that is part of a product's sum, and the instruction that replaces it.
    added: Option<(usize, usize)>,
}

impl<'a> Lowering<'a> {
    fn new(nodes: &'a Nodes, inside: &'a [usize], shape: Shape, limits: Limits) -> Self {
        Self {
            nodes,
            limits,
            added: None,
            inside,
            body: Body::default(),
            of: HashMap::new(),
            rows: match shape {
                Shape::Rows(rows, n) => Some((rows, n)),
                _ => None,
            },
        }
    }

    fn kernel(mut self, group: &Group) -> Result<KernelPlan> {
        let space = match group.shape {
            Shape::Map(count) => {
                self.compute_all(&group.nodes)?;
                Space::Map { count }
            }
            Shape::Rows(rows, n) => {
                self.compute_all(&group.nodes)?;
                Space::Rows { rows, n }
            }
            Shape::Columns => self.columns(&group.nodes)?,
            Shape::MatMul => self.matmul(group)?,
            Shape::Scatter => self.scatter(group.nodes[0])?,
            Shape::Chain => return Err(Error::internal("a chain is lowered link by link")),
        };
        let mut outputs = Vec::new();
        self.store(group, &mut outputs);
        Ok(KernelPlan {
            label: label(self.nodes, group),
            space,
            body: self.body,
            outputs,
        })
    }

    /// Stores values that other groups read.
    fn store(&mut self, group: &Group, outputs: &mut Vec<usize>) {
        let reads_all = |reader: &usize| group.nodes.contains(reader);
        for &node in self.inside {
            if !self.nodes.is_result(node) && self.nodes.readers[node].iter().all(reads_all) {
                continue;
            }
            if let Some(&instruction) = self.of.get(&node) {
                self.body.stores.push((instruction, outputs.len()));
            }
            outputs.push(node);
        }
    }

    fn compute_all(&mut self, nodes: &[usize]) -> Result<()> {
        nodes.iter().try_for_each(|node| self.compute(*node))
    }

    fn push(&mut self, value: Value, by_row: bool) -> usize {
        let instruction = Instruction { value, by_row };
        // An equal instruction is reused.
        if let Some(found) = self
            .body
            .instructions
            .iter()
            .position(|other| *other == instruction)
        {
            return found;
        }
        self.body.instructions.push(instruction);
        self.body.instructions.len() - 1
    }

    fn load(&mut self, source: Source, by_row: bool) -> usize {
        let input = match self.body.inputs.iter().position(|other| *other == source) {
            Some(input) => input,
            None => {
                self.body.inputs.push(source);
                self.body.inputs.len() - 1
            }
        };
        self.push(Value::Input(input), by_row)
    }

    fn access(&self, tensor: &Tensor) -> Access {
        let (buffer, layout) = self.nodes.root_of(tensor);
        Access {
            buffer,
            dims: layout.collapsed(),
            offset: layout.offset,
            count: layout.count(),
            dtype: self.nodes.list[buffer].dtype(),
        }
    }

    /// Returns the instruction for an operand.
    fn operand(&mut self, tensor: &Tensor, by_row: bool) -> Result<usize> {
        let (root, _) = self.nodes.root_of(tensor);
        if let Op::Constant(value) = self.nodes.list[root].0.op {
            return Ok(self.push(Value::Constant(value), by_row));
        }
        if let Some((_, nothing)) = self.added.filter(|added| added.0 == root) {
            return Ok(nothing);
        }
        if self.inside.contains(&root) {
            let found = self.of.get(&root).copied();
            return found.ok_or_else(|| {
                Error::internal(format!(
                    "{} is used before it is computed",
                    tensor.describe()
                ))
            });
        }
        let mut access = self.access(tensor);
        // A value that is constant along a row is loaded once per row.
        if let Some((rows, n)) = self.rows.filter(|_| !by_row)
            && access.dims.last().is_some_and(|dim| *dim == (n, 0))
            && access.count == rows * n
        {
            access.dims.pop();
            access.count = rows;
            return Ok(self.load(Source::Buffer(access), true));
        }
        Ok(self.load(Source::Buffer(access), by_row))
    }

    fn compute(&mut self, node: usize) -> Result<()> {
        let tensor = &self.nodes.list[node];
        let by_row = match (self.rows, &tensor.0.op) {
            (Some(_), Op::Reduce(..)) => true,
            (Some((rows, n)), _) => tensor.count() != rows * n,
            (None, _) => false,
        };
        let inputs = &tensor.0.inputs;
        let instruction = match &tensor.0.op {
            Op::Element(op) => {
                let operands = inputs.iter().map(|input| self.operand(input, by_row));
                let operands = operands.collect::<Result<Vec<usize>>>()?;
                self.push(Value::Element(*op, operands), by_row)
            }
            Op::Reduce(op, _) => {
                let operand = self.operand(&inputs[0], false)?;
                self.push(Value::Reduce(*op, operand), true)
            }
            Op::Cat(axis) => {
                let inner = tensor.shape()[axis + 1..].iter().product();
                let piece = |input: &Tensor| {
                    let (root, _) = self.nodes.root_of(input);
                    let piece = match self.nodes.list[root].0.op {
                        Op::Constant(value) => Piece::Constant(value),
                        _ => Piece::Buffer(self.access(input)),
                    };
                    (input.shape()[*axis], piece)
                };
                let pieces = inputs.iter().map(piece).collect();
                self.load(Source::Cat(inner, pieces), by_row)
            }
            Op::Gather => {
                let (table, numbers) = (&inputs[0], &inputs[1]);
                let shape = table.shape();
                let source =
                    Source::Gather(self.access(table), self.access(numbers), shape[0], shape[1]);
                self.load(source, by_row)
            }
            Op::Unfold(unfold) => {
                let source = Source::Unfold(self.access(&inputs[0]), *unfold);
                self.load(source, by_row)
            }
            op => {
                return Err(Error::internal(format!(
                    "{} is not computed by elements",
                    op.title()
                )));
            }
        };
        self.of.insert(node, instruction);
        Ok(())
    }

    fn columns(&mut self, nodes: &[usize]) -> Result<Space> {
        let Some((&reduction, before)) = nodes.split_last() else {
            return Err(Error::internal("a reduction of nothing"));
        };
        self.compute_all(before)?;
        let tensor = &self.nodes.list[reduction];
        let value = self.operand(&tensor.0.inputs[0], false)?;
        match tensor.0.op {
            Op::Reduce(op, [outer, n, inner]) => Ok(Space::Columns {
                outer,
                n,
                inner,
                op,
                value,
            }),
            _ => Err(Error::internal("no reduction ends a reduction")),
        }
    }

    fn matmul(&mut self, group: &Group) -> Result<Space> {
        let (product, after) = (group.nodes[0], &group.nodes[1..]);
        if let Some(added) = group.more {
            // The value is already in the sum.
            let nothing = self.push(Value::Constant(0.0), false);
            self.added = Some((added.node, nothing));
        }
        let instruction = self.push(Value::Product, false);
        self.of.insert(product, instruction);
        self.compute_all(after)?;
        let tensor = &self.nodes.list[product];
        let (a, b) = (&tensor.0.inputs[0], &tensor.0.inputs[1]);
        let rank = tensor.rank();
        let (m, n) = (tensor.shape()[rank - 2], tensor.shape()[rank - 1]);
        let made = Product {
            batch: tensor.shape()[..rank - 2].iter().product(),
            m,
            k: a.shape()[rank - 1],
            n,
            a: self.matrix(a),
            b: self.matrix(b),
            plain: self.limits.plain_products,
            cooperative: self.limits.cooperative,
            more: group.more.map(|added| self.more(added)),
        };
        Ok(Space::MatMul(Box::new(made)))
    }

    fn more(&self, added: Added) -> More {
        let inputs = &self.nodes.list[added.product].0.inputs;
        More {
            k: inputs[0].shape().last().copied().unwrap_or(0),
            a: self.matrix(&inputs[0]),
            b: self.matrix(&inputs[1]),
            scale: added.scale,
        }
    }

    fn matrix(&self, tensor: &Tensor) -> Matrix {
        let (node, layout) = self.nodes.root_of(tensor);
        let rank = layout.shape.len();
        let buffer = self.nodes.source(tensor);
        // For an unfolded matrix, the strides are those of taps and windows, the offset that of the image.
        let (offset, unfold) = match self.nodes.list[node].0.op {
            Op::Unfold(unfold) if self.nodes.is_virtual(node) => (0, Some(unfold)),
            _ => (layout.offset, None),
        };
        let batch = Layout {
            shape: layout.shape[..rank - 2].to_vec(),
            strides: layout.strides[..rank - 2].to_vec(),
            offset: 0,
        };
        Matrix {
            buffer,
            dtype: self.nodes.list[buffer].dtype(),
            offset,
            unfold,
            dims: batch.collapsed(),
            row: layout.strides[rank - 2],
            column: layout.strides[rank - 1],
        }
    }

    fn scatter(&mut self, node: usize) -> Result<Space> {
        let tensor = &self.nodes.list[node];
        let (values, numbers) = (&tensor.0.inputs[0], &tensor.0.inputs[1]);
        let (values, numbers) = (values.clone(), numbers.clone());
        let source = Source::Buffer(self.access(&numbers));
        self.operand(&values, false)?;
        self.load(source, false);
        Ok(Space::Scatter {
            rows: tensor.shape()[0],
            width: tensor.shape()[1],
            numbers: numbers.count(),
        })
    }
}
