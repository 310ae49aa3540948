//! [`compile`]: from outputs of a graph to a program.

use super::{Limits, Program, groups, lower, memory, nodes};
use crate::graph::tensor::Tensor;
use dapple_base::Result;

/// Compiles the program that computes `outputs`, and writes the second of each pair of `updates` into the first, a
/// leaf.
///
/// # Errors
/// The first mistake in the construction of the graph; tensors of different contexts.
pub(crate) fn compile(
    outputs: &[&Tensor],
    updates: &[(Tensor, Tensor)],
    limits: Limits,
) -> Result<Program> {
    let nodes = nodes::Nodes::collect(outputs, updates)?;
    let groups = groups::groups(&nodes, limits)?;
    let lowered = lower::lower(&nodes, &groups, limits)?;
    Ok(memory::plan(lowered, &nodes, limits))
}
