//! Static assignment of values to buffers, from the last read of each value.
//!
//! 1. A kernel's outputs get free slots, preferably of about their size, else new slots. Outputs of the plan keep their
//!    slots.
//! 2. After a kernel, slots without later readers are free: a kernel never writes a slot that it reads.
//! 3. A new value of a leaf is written straight into the leaf if that is safe: the kernel loads from the leaf only the
//!    elements that it stores, and no later kernel reads the leaf. Otherwise the value is copied at the end.

use super::nodes::Nodes;
use super::{Access, BufferPlan, KernelPlan, Limits, Matrix, Piece, Place, Program, Source, Space};
use crate::graph::tensor::Op;

/// Maximum size of a slot as a multiple of its content.
const MOST_WASTE: usize = 2;

pub(crate) fn plan(mut kernels: Vec<KernelPlan>, nodes: &Nodes, limits: Limits) -> Program {
    let mut last_read = vec![0; nodes.list.len()];
    for (at, kernel) in kernels.iter().enumerate() {
        for node in kernel.reads() {
            last_read[node] = at;
        }
    }
    for node in (0..nodes.list.len()).filter(|node| nodes.is_result(*node)) {
        last_read[node] = usize::MAX;
    }
    let written = in_place(&kernels, nodes, &last_read, limits);
    let mut memory = Memory::default();
    // The buffer of each node.
    let mut buffer_of: Vec<Option<usize>> = vec![None; nodes.list.len()];
    let mut buffers: Vec<BufferPlan> = Vec::new();
    for (node, tensor) in nodes.list.iter().enumerate() {
        if matches!(tensor.0.op, Op::Leaf(_)) {
            buffer_of[node] = Some(buffers.len());
            buffers.push(BufferPlan {
                dtype: tensor.dtype(),
                count: tensor.count(),
                place: Place::Leaf(tensor.clone()),
            });
        }
    }
    for (at, kernel) in kernels.iter().enumerate() {
        for &node in &kernel.outputs {
            let tensor = &nodes.list[node];
            let leaf = written
                .iter()
                .find(|pair| pair.1 == node)
                .and_then(|pair| buffer_of[pair.0]);
            if leaf.is_some() {
                buffer_of[node] = leaf;
                continue;
            }
            let slot = memory.take(
                tensor.count() * tensor.dtype().bytes(),
                last_read[node] == usize::MAX,
            );
            buffer_of[node] = Some(buffers.len());
            buffers.push(BufferPlan {
                dtype: tensor.dtype(),
                count: tensor.count(),
                place: Place::Slot(slot),
            });
        }
        for &node in kernel.outputs.iter().chain(&kernel.reads()) {
            let slot = buffer_of[node].and_then(|buffer| match buffers[buffer].place {
                Place::Slot(slot) => Some(slot),
                Place::Leaf(_) => None,
            });
            if let Some(slot) = slot.filter(|_| last_read[node] <= at) {
                memory.give_back(slot);
            }
        }
    }
    let at = |node: usize| buffer_of[node].unwrap_or(0);
    kernels.iter_mut().for_each(|kernel| place(kernel, &at));
    let copied = nodes.updates.iter().filter(|pair| !written.contains(pair));
    Program {
        copies: copied
            .map(|(leaf, value)| (at(*value), at(*leaf)))
            .collect(),
        outputs: nodes.outputs.iter().map(|node| at(*node)).collect(),
        kernels,
        buffers,
        slots: memory.bytes,
    }
}

/// Replaces nodes by buffers: `at` returns the buffer.
fn place(kernel: &mut KernelPlan, at: &dyn Fn(usize) -> usize) {
    let outputs = kernel.outputs.iter_mut();
    outputs.for_each(|output| *output = at(*output));
    let mut matrices: Vec<&mut Matrix> = Vec::new();
    let mut sources: Vec<&mut Source> = kernel.body.inputs.iter_mut().collect();
    match &mut kernel.space {
        Space::MatMul(product) => {
            matrices.extend([&mut product.a, &mut product.b]);
            if let Some(more) = &mut product.more {
                matrices.extend([&mut more.a, &mut more.b]);
            }
        }
        Space::Chain(chain) => {
            matrices.push(&mut chain.a);
            for link in &mut chain.links {
                matrices.push(&mut link.b);
                sources.extend(&mut link.body.inputs);
            }
        }
        _ => {}
    }
    for matrix in matrices {
        matrix.buffer = at(matrix.buffer);
    }
    let place = |access: &mut Access| access.buffer = at(access.buffer);
    for source in sources {
        match source {
            Source::Buffer(access) | Source::Unfold(access, _) => place(access),
            Source::Gather(table, numbers, ..) => [table, numbers].into_iter().for_each(place),
            Source::Cat(_, pieces) => pieces.iter_mut().for_each(|(_, piece)| {
                if let Piece::Buffer(access) = piece {
                    place(access);
                }
            }),
        }
    }
}

/// Slots, and the free ones among them.
#[derive(Default)]
struct Memory {
    bytes: Vec<usize>,
    free: Vec<usize>,
}

impl Memory {
    fn take(&mut self, bytes: usize, stays: bool) -> usize {
        let fits = |slot: &usize| {
            let has = self.bytes[*slot];
            has >= bytes && has <= bytes.saturating_mul(MOST_WASTE).max(4096)
        };
        let candidates = self
            .free
            .iter()
            .enumerate()
            .filter(|(_, slot)| fits(slot) && !stays);
        let best = candidates
            .min_by_key(|(_, slot)| self.bytes[**slot])
            .map(|(at, _)| at);
        match best {
            Some(at) => self.free.swap_remove(at),
            None => {
                self.bytes.push(bytes);
                self.bytes.len() - 1
            }
        }
    }

    fn give_back(&mut self, slot: usize) {
        if !self.free.contains(&slot) {
            self.free.push(slot);
        }
    }
}

/// Returns the updates that their kernel writes straight into the leaf.
fn in_place(
    kernels: &[KernelPlan],
    nodes: &Nodes,
    last_read: &[usize],
    limits: Limits,
) -> Vec<(usize, usize)> {
    if !limits.in_place {
        return Vec::new();
    }
    let is_safe = |(leaf, value): &(usize, usize)| {
        let at = kernels
            .iter()
            .position(|kernel| kernel.outputs.contains(value))?;
        let kernel = &kernels[at];
        let elements = matches!(kernel.space, Space::Map { .. });
        // No later kernel needs the leaf, or a separate copy of the value.
        let reads_later = last_read[*leaf] > at
            || kernels
                .iter()
                .skip(at + 1)
                .any(|k| k.reads().contains(value));
        let is_wanted =
            nodes.outputs.contains(value) || nodes.outputs.contains(leaf) || nodes.is_result(*leaf);
        let once = nodes
            .updates
            .iter()
            .filter(|pair| pair.0 == *leaf || pair.1 == *value)
            .count()
            == 1;
        let plainly = kernel.body.inputs.iter().all(|source| match source {
            Source::Buffer(access) if access.buffer == *leaf => {
                access.offset == 0
                    && matches!(access.dims.as_slice(), [] | [(_, 1)])
                    && access.count == nodes.list[*leaf].count()
            }
            other => other.accesses().iter().all(|access| access.buffer != *leaf),
        });
        (elements && !reads_later && !is_wanted && once && plainly).then_some(())
    };
    nodes
        .updates
        .iter()
        .copied()
        .filter(|pair| is_safe(pair).is_some())
        .collect()
}
