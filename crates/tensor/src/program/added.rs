//! Low-rank additions: `x W + bias + scale (h B)` becomes one product, whose sum continues with the sum of the second
//! product. LoRA's base and its addition then write their result once, and never read it.
//!
//! 1. A product of a short sum, optionally times a number, is added to another product of the same shape, or to a
//!    result that sums alone compute from that product. Which of the two groups contains the remaining nodes depends on
//!    the order in which the nodes were created.
//! 2. The other product remains; only the matrices and the number of the short one remain.

use super::groups::{Builder, Group, Shape};
use crate::graph::element::ElementOp;
use crate::graph::tensor::{Op, Tensor};

/// A product that is added to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Added {
    pub product: usize,
    pub scale: f32,
    /// Node of the addition, which disappears.
    pub node: usize,
}

impl Builder<'_> {
    /// Merges low-rank additions into the sum that they are added to: `x W + bias + scale (h B)` becomes one product.
    pub fn take_in_added(&mut self) {
        for index in 0..self.groups.len() {
            let Some(group) = self.groups[index].clone() else {
                continue;
            };
            // Each of four matrices may be bound twice, for two methods of loading.
            let fits = self.bindings(&group.nodes) + 4 <= self.limits.bindings;
            if group.shape != Shape::MatMul || group.more.is_some() || !fits {
                continue;
            }
            if let Some((other, nodes, added)) = self.added_behind(&group) {
                self.groups[other] = None;
                nodes.iter().for_each(|node| self.of[*node] = Some(index));
                self.groups[index] = Some(Group {
                    nodes,
                    more: Some(added),
                    ..group
                });
            } else if let Some((other, added)) = self.added(&group) {
                self.groups[other] = None;
                let nodes = [added.product, added.node];
                nodes.iter().for_each(|node| self.of[*node] = Some(index));
                self.groups[index] = Some(Group {
                    more: Some(added),
                    ..group
                });
            }
        }
    }

    /// Returns the product that is added to a group's product through sums only, and whose own group has no other
    /// reader.
    fn added(&self, group: &Group) -> Option<(usize, Added)> {
        let first = group.nodes[0];
        let size = |node: usize| self.nodes.list[node].shape().to_vec();
        let shape = size(first);
        let depth = |node: usize| {
            let input = &self.nodes.list[node].0.inputs[0];
            input.shape().last().copied().unwrap_or(0)
        };
        if shape.len() != 2 || !depth(first).is_multiple_of(4) || depth(first) == 0 {
            return None;
        }
        let mut sum = first;
        loop {
            // The sum is its only reader.
            let readers = &self.nodes.readers[sum];
            let &[reader] = readers.as_slice() else {
                return None;
            };
            let tensor = &self.nodes.list[reader];
            let is_sum = matches!(tensor.0.op, Op::Element(ElementOp::Add));
            if self.nodes.is_result(sum) || !is_sum || !group.nodes.contains(&reader) {
                return None;
            }
            for input in &tensor.0.inputs {
                let (node, _) = self.nodes.root_of(input);
                if node == sum || !self.nodes.is_whole(input) {
                    continue;
                }
                if let Some(found) = self.low_rank(node, &shape) {
                    return (self.only_reader(node)? == self.of[first]?).then_some(found);
                }
            }
            sum = reader;
        }
    }

    /// Handles the reverse case: the group's own product is the short one, and a sum after it adds the result of
    /// another product's group, whose only reader is this group. Returns the index of the other group, its nodes with
    /// the remaining ones of this group, product first, and the addition.
    fn added_behind(&self, group: &Group) -> Option<(usize, Vec<usize>, Added)> {
        let product = group.nodes[0];
        let shape = self.nodes.list[product].shape();
        let reader = |node: usize| match self.nodes.readers[node].as_slice() {
            &[reader] if !self.nodes.is_result(node) => Some(reader),
            _ => None,
        };
        let mut node = product;
        let mut next = reader(node)?;
        let mut scale = 1.0;
        if let Some(weight) = self.weight(next) {
            (node, next, scale) = (next, reader(next)?, weight);
        }
        let sum = &self.nodes.list[next];
        if !matches!(sum.0.op, Op::Element(ElementOp::Add)) || !self.is_short(product, shape) {
            return None;
        }
        let mut inputs = sum.0.inputs.iter();
        let added_to = inputs.find(|input| self.nodes.root_of(input).0 != node)?;
        let (before, _) = self.nodes.root_of(added_to);
        let other = self.of[before]?;
        let first = self.group(other)?;
        let long = first.nodes[0];
        let is_sum = |node: &usize| {
            let tensor = &self.nodes.list[*node];
            matches!(tensor.0.op, Op::Element(ElementOp::Add)) && reader(*node).is_some()
        };
        let depth = self.nodes.list[long].0.inputs[0].shape().last();
        let fits = self.nodes.is_whole(added_to)
            && first.shape == Shape::MatMul
            && first.more.is_none()
            && first.nodes.last() == Some(&before)
            && first.nodes[1..].iter().all(is_sum)
            && self.nodes.list[long].shape() == shape
            && depth.is_some_and(|depth| *depth > 0 && depth.is_multiple_of(4))
            && self.only_reader(before) == self.of[product];
        if !fits {
            return None;
        }
        let rest = group.nodes.iter().filter(|n| **n != product && **n != node);
        let mut rest: Vec<usize> = first.nodes[1..].iter().chain(rest).copied().collect();
        rest.sort_unstable();
        let nodes: Vec<usize> = std::iter::once(long).chain(rest).collect();
        let enough = self.bindings(&nodes) + 4 <= self.limits.bindings;
        let added = Added {
            product,
            scale,
            node,
        };
        enough.then_some((other, nodes, added))
    }

    /// Returns the number that a node multiplies by, if its factor is a number.
    fn weight(&self, node: usize) -> Option<f32> {
        let tensor = &self.nodes.list[node];
        let constant = |input: &Tensor| match self.nodes.list[self.nodes.root_of(input).0].0.op {
            Op::Constant(value) => Some(value),
            _ => None,
        };
        let is_product = matches!(tensor.0.op, Op::Element(ElementOp::Mul));
        let mut inputs = tensor.0.inputs.iter();
        is_product.then(|| inputs.find_map(constant)).flatten()
    }

    /// Returns true if a product of this shape has a sum short enough to continue another sum: in memory, not in
    /// batches.
    fn is_short(&self, product: usize, shape: &[usize]) -> bool {
        const DEEPEST: usize = 128;
        let tensor = &self.nodes.list[product];
        let inputs = &tensor.0.inputs;
        let depth = inputs[0].shape().last().copied().unwrap_or(0);
        let mut seen = inputs.iter().map(|input| self.nodes.root_of(input).0);
        tensor.shape() == shape
            && shape.len() == 2
            && depth <= DEEPEST
            && !seen.any(|node| self.nodes.is_virtual(node))
    }

    /// Returns the group that ends with a node, if the node is a product of a short sum and of this shape, optionally
    /// times a number.
    fn low_rank(&self, node: usize, shape: &[usize]) -> Option<(usize, Added)> {
        let index = self.of[node]?;
        let group = self.group(index)?;
        let product = group.nodes[0];
        if group.shape != Shape::MatMul || group.more.is_some() || !self.is_short(product, shape) {
            return None;
        }
        let scale = match group.nodes.as_slice() {
            [only] if *only == node => 1.0,
            &[_, last] if last == node => self.weight(last)?,
            _ => return None,
        };
        Some((
            index,
            Added {
                product,
                scale,
                node,
            },
        ))
    }
}
