//! The nodes of a program: all nodes that outputs need, in the order in which they were created.

use crate::graph::layout::Layout;
use crate::graph::tensor::{Op, Tensor};
use dapple_base::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// Nodes with memory, or computed into it; views and custom operations are resolved.
pub(crate) struct Nodes {
    pub list: Vec<Tensor>,
    index: HashMap<u64, usize>,
    /// Readers of each node.
    pub readers: Vec<Vec<usize>>,
    /// Nodes of the outputs and updates.
    pub outputs: Vec<usize>,
    /// Leaf, and the node of its new value.
    pub updates: Vec<(usize, usize)>,
}

impl Nodes {
    pub fn collect(outputs: &[&Tensor], updates: &[(Tensor, Tensor)]) -> Result<Self> {
        // A leaf that is the new value of another leaf may change in the same run: a kernel reads it like all others.
        let values = updates.iter().map(|(_, value)| match value.contiguous() {
            plain if matches!(plain.root().0.op, Op::Leaf(_)) => plain.copied(),
            computed => computed,
        });
        let wanted: Vec<Tensor> = outputs
            .iter()
            .map(|output| output.contiguous())
            .chain(values)
            .collect();
        let first = outputs
            .first()
            .copied()
            .or(updates.first().map(|pair| &pair.0));
        for tensor in &wanted {
            tensor.check()?;
            if let Some(first) = first.filter(|first| first.context() != tensor.context()) {
                let what = format!(
                    "a plan of {} and {}, which are of two contexts",
                    first.describe(),
                    tensor.describe()
                );
                return Err(Error::input(what).hint("make a plan for each context"));
            }
        }
        for (leaf, value) in updates {
            let is_leaf = matches!(leaf.0.op, Op::Leaf(_));
            if !is_leaf || leaf.shape() != value.shape() || leaf.dtype() != value.dtype() {
                leaf.check()?;
                let what = format!("{} cannot become {}", leaf.describe(), value.describe());
                return Err(Error::input(what)
                    .hint("an update goes into values of the same shape and type: see to()"));
            }
        }
        let mut found: BTreeMap<u64, Tensor> = BTreeMap::new();
        let mut pending: Vec<Tensor> = wanted.iter().map(|tensor| tensor.root().clone()).collect();
        pending.extend(updates.iter().map(|(leaf, _)| leaf.clone()));
        while let Some(tensor) = pending.pop() {
            if found.contains_key(&tensor.0.id) {
                continue;
            }
            pending.extend(tensor.0.inputs.iter().map(|input| input.root().clone()));
            found.insert(tensor.0.id, tensor);
        }
        let list: Vec<Tensor> = found.into_values().collect();
        let index: HashMap<u64, usize> = list
            .iter()
            .enumerate()
            .map(|(at, node)| (node.0.id, at))
            .collect();
        let at = |tensor: &Tensor| index[&tensor.root().0.id];
        let mut readers = vec![Vec::new(); list.len()];
        for (reader, tensor) in list.iter().enumerate() {
            for input in &tensor.0.inputs {
                let read: &mut Vec<usize> = &mut readers[at(input)];
                if read.last() != Some(&reader) {
                    read.push(reader);
                }
            }
        }
        Ok(Self {
            outputs: wanted[..outputs.len()].iter().map(at).collect(),
            updates: updates
                .iter()
                .zip(&wanted[outputs.len()..])
                .map(|((leaf, _), value)| (at(leaf), at(value)))
                .collect(),
            readers,
            index,
            list,
        })
    }

    /// Returns the node of a tensor, or of the root of a view, and its layout in the node.
    pub fn root_of<'a>(&self, tensor: &'a Tensor) -> (usize, &'a Layout) {
        (self.index[&tensor.root().0.id], &tensor.0.layout)
    }

    /// Returns true if a tensor's elements are exactly those of its node, in order.
    pub fn is_whole(&self, tensor: &Tensor) -> bool {
        let (node, layout) = self.root_of(tensor);
        layout.is_identity(self.list[node].count())
    }

    /// Returns true if the node must be in memory after the run.
    pub fn is_result(&self, node: usize) -> bool {
        self.outputs.contains(&node) || self.updates.iter().any(|pair| pair.1 == node)
    }

    /// Returns true if a kernel computes the node.
    pub fn is_computed(&self, node: usize) -> bool {
        !matches!(self.list[node].0.op, Op::Leaf(_) | Op::Constant(_)) && !self.is_virtual(node)
    }

    /// Returns true if only products read the node, through its input.
    pub fn is_virtual(&self, node: usize) -> bool {
        let is_product = |reader: &usize| matches!(self.list[*reader].0.op, Op::MatMul);
        matches!(self.list[node].0.op, Op::Unfold(_))
            && !self.is_result(node)
            && self.readers[node].iter().all(is_product)
    }

    /// Returns the node that must exist before a tensor can be read.
    pub fn source(&self, tensor: &Tensor) -> usize {
        let (node, _) = self.root_of(tensor);
        match self.is_virtual(node) {
            true => self.root_of(&self.list[node].0.inputs[0]).0,
            false => node,
        }
    }
}
