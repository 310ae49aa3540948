//! Groups of nodes that share a kernel.
//!
//! 1. Nodes are visited in the order in which they were created. Each group has a level: it reads only lower levels and
//!    itself. So groups of one level never wait for each other, and joining two of them creates no cycle.
//! 2. A node's level is that of the highest group that it reads. The node joins the groups of this level that it reads,
//!    if one kernel can compute all of them: element by element over the same elements, or as a reduction of rows, or
//!    from one. Otherwise it begins a group one level up. One kernel thus computes several results, and softmax is one
//!    kernel.
//! 3. Then products include the elementwise nodes after them (bias, activation, residual), and reductions of columns
//!    the nodes before them.
//! 4. Maps include maps of lower levels over the same number of elements that they read element by element. An example
//!    is an optimizer's moments, and the value that also reads scalars computed at their level.
//! 5. Last, narrow products of another product's result become chains: see `chain`.

use super::Limits;
use super::added::Added;
use super::nodes::Nodes;
use crate::graph::element::ElementOp;
use crate::graph::layout::Layout;
use crate::graph::tensor::{DType, Op, ReduceOp};
use dapple_base::{Error, Result};

/// Maximum instructions of a kernel: registers are few.
const MOST_NODES: usize = 64;

/// Nodes of one kernel.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub level: usize,
    pub shape: Shape,
    /// Nodes in the order in which they were created.
    pub nodes: Vec<usize>,
    /// For a product: another product that is added to it.
    pub more: Option<Added>,
    /// For a chain: the nodes of each product, the product first.
    pub links: Vec<Vec<usize>>,
}

/// Index space of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Map(usize),
    Rows(usize, usize),
    /// A reduction of columns.
    Columns,
    MatMul,
    Scatter,
    /// Consecutive products on the same rows.
    Chain,
}

/// Access of a node to an operand of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Element by element.
    Same,
    /// Value of the row, for each of its `n` elements.
    Row(usize),
    Other,
}

fn sight(layout: &Layout, elements: usize) -> Sight {
    if layout.is_identity(elements) {
        return Sight::Same;
    }
    match (layout.offset, layout.collapsed().as_slice()) {
        (0, [(_, 1), (n, 0)]) | (0, [(n, 0)]) => Sight::Row(*n),
        _ => Sight::Other,
    }
}

pub(super) struct Builder<'a> {
    pub nodes: &'a Nodes,
    pub limits: Limits,
    pub groups: Vec<Option<Group>>,
    pub of: Vec<Option<usize>>,
    /// True if a node of a group of rows has one value per row.
    by_row: Vec<bool>,
}

/// Returns groups in an order in which they can run.
///
/// # Errors
/// Groups that wait for each other: a bug.
pub(crate) fn groups(nodes: &Nodes, limits: Limits) -> Result<Vec<Group>> {
    let mut builder = Builder {
        nodes,
        limits,
        groups: Vec::new(),
        of: vec![None; nodes.list.len()],
        by_row: vec![false; nodes.list.len()],
    };
    for node in (0..nodes.list.len()).filter(|node| nodes.is_computed(*node)) {
        builder.place(node);
    }
    if limits.fuse {
        builder.take_in();
        builder.take_in_maps();
        if !limits.plain_products {
            builder.take_in_added();
            if builder.take_in_chains() {
                let ordered = builder.in_order();
                let all = builder.groups.iter().flatten().count();
                return match ordered.len() == all {
                    true => Ok(ordered),
                    false => Err(Error::internal("kernels that wait for each other")),
                };
            }
        }
    }
    let mut groups: Vec<Group> = builder.groups.into_iter().flatten().collect();
    groups.sort_by_key(|group| (group.level, group.nodes[0]));
    Ok(groups)
}

impl Builder<'_> {
    /// Returns the computed operands: group, and access.
    fn operands(&self, node: usize) -> Vec<(usize, usize, Sight)> {
        let inputs = self.nodes.list[node].0.inputs.iter();
        let seen = inputs.filter_map(|input| {
            let (node, layout) = self.nodes.root_of(input);
            let root = self.nodes.source(input);
            let elements = self.nodes.list[node].count();
            Some((self.of[root]?, root, sight(layout, elements)))
        });
        seen.collect()
    }

    pub fn group(&self, index: usize) -> Option<&Group> {
        self.groups[index].as_ref()
    }

    fn level(&self, index: usize) -> usize {
        self.group(index).map_or(0, |group| group.level)
    }

    fn place(&mut self, node: usize) {
        let operands = self.operands(node);
        let level = operands.iter().map(|o| self.level(o.0)).max().unwrap_or(0);
        if self.limits.fuse
            && level > 0
            && let Some((shape, by_row)) = self.joint(node, level, &operands)
        {
            let mut joined: Vec<usize> = operands
                .iter()
                .map(|o| o.0)
                .filter(|g| self.level(*g) == level)
                .collect();
            joined.sort_unstable();
            joined.dedup();
            if self.fits(node, &joined) {
                self.join(node, shape, by_row, &joined);
                return;
            }
        }
        self.of[node] = Some(self.groups.len());
        let (shape, by_row) = self.alone(node);
        self.by_row[node] = by_row;
        self.groups.push(Some(Group {
            level: level + 1,
            shape,
            nodes: vec![node],
            more: None,
            links: Vec::new(),
        }));
    }

    /// Returns the index space of a node by itself, and true if the node has one value per row.
    fn alone(&self, node: usize) -> (Shape, bool) {
        let tensor = &self.nodes.list[node];
        match &tensor.0.op {
            Op::Reduce(_, [outer, n, 1]) => (Shape::Rows(*outer, *n), true),
            Op::Reduce(..) => (Shape::Columns, false),
            Op::MatMul => (Shape::MatMul, false),
            Op::ScatterAdd => (Shape::Scatter, false),
            _ => (Shape::Map(tensor.count()), false),
        }
    }

    /// Returns the joint index space of the node and the groups that it reads at `level`, and true if the node has one
    /// value per row; `None` if they have no joint space.
    fn joint(
        &self,
        node: usize,
        level: usize,
        operands: &[(usize, usize, Sight)],
    ) -> Option<(Shape, bool)> {
        let tensor = &self.nodes.list[node];
        let count = tensor.count();
        let here = operands.iter().filter(|o| self.level(o.0) == level);
        let is_reduce = match tensor.0.op {
            Op::Element(_) => false,
            Op::Reduce(_, [_, _, 1]) => true,
            _ => return None,
        };
        // The rows of the groups or of the node, if any.
        let mut rows = match tensor.0.op {
            Op::Reduce(_, [outer, n, _]) => Some((outer, n)),
            _ => None,
        };
        for (group, _, sight) in here.clone() {
            match (self.group(*group)?.shape, sight) {
                (_, Sight::Other) => return None,
                (Shape::Rows(r, n), _) => match rows {
                    Some(known) if known != (r, n) => return None,
                    _ => rows = Some((r, n)),
                },
                (Shape::Map(_), Sight::Same) => {}
                (Shape::Map(_), Sight::Row(_))
                | (Shape::Columns | Shape::MatMul | Shape::Scatter | Shape::Chain, _) => {
                    return None;
                }
            }
        }
        let Some((rows, n)) = rows else {
            return (count > 0).then_some((Shape::Map(count), false));
        };
        let by_row = is_reduce || count != rows * n;
        if by_row && count != rows {
            return None;
        }
        for (group, root, sight) in here {
            let of_rows = match self.group(*group)?.shape {
                Shape::Rows(..) => self.by_row[*root],
                // The whole group becomes elementwise.
                _ if self.nodes.list[*root].count() == rows * n => false,
                _ => return None,
            };
            let fits = match (is_reduce, by_row, of_rows) {
                (true, _, of_rows) => !of_rows && *sight == Sight::Same,
                (false, true, of_rows) => of_rows && *sight == Sight::Same,
                (false, false, false) => *sight == Sight::Same,
                (false, false, true) => *sight == Sight::Row(n),
            };
            if !fits {
                return None;
            }
        }
        // 16-bit elements are stored in fours.
        let halves = tensor.dtype() == DType::F16 && (by_row || !n.is_multiple_of(4));
        let others = here_halves(self, operands, level, n);
        (!halves && !others).then_some((Shape::Rows(rows, n), by_row))
    }

    /// Returns true if the bindings of a kernel of these groups and the node are within the limit.
    fn fits(&self, node: usize, joined: &[usize]) -> bool {
        let mut all: Vec<usize> = joined
            .iter()
            .filter_map(|g| self.group(*g))
            .flat_map(|g| g.nodes.clone())
            .collect();
        all.push(node);
        all.len() <= MOST_NODES && self.bindings(&all) <= self.limits.bindings
    }

    /// Returns the maximum bindings of a kernel of these nodes: a buffer may be bound twice, for two methods of
    /// loading.
    pub fn bindings(&self, all: &[usize]) -> usize {
        let mut read: Vec<(usize, bool)> = Vec::new();
        for node in all {
            for input in &self.nodes.list[*node].0.inputs {
                let (root, _) = self.nodes.root_of(input);
                let constant = matches!(self.nodes.list[root].0.op, Op::Constant(_));
                let key = (root, self.nodes.is_whole(input));
                if !constant && !all.contains(&root) && !read.contains(&key) {
                    read.push(key);
                }
            }
        }
        let stored = all.iter().filter(|node| {
            let readers = &self.nodes.readers[**node];
            self.nodes.is_result(**node) || readers.iter().any(|reader| !all.contains(reader))
        });
        read.len() + stored.count()
    }

    fn join(&mut self, node: usize, shape: Shape, by_row: bool, joined: &[usize]) {
        let into = joined[0];
        let mut nodes = vec![node];
        let mut level = 0;
        for index in joined {
            if let Some(group) = self.groups[*index].take() {
                level = group.level;
                nodes.extend(group.nodes);
            }
        }
        nodes.sort_unstable();
        for node in &nodes {
            self.of[*node] = Some(into);
        }
        self.by_row[node] = by_row;
        self.groups[into] = Some(Group {
            level,
            shape,
            nodes,
            more: None,
            links: Vec::new(),
        });
    }

    /// Returns the only group, other than its own, that reads a node; `None` if several groups or the plan's end read
    /// it.
    pub fn only_reader(&self, node: usize) -> Option<usize> {
        if self.nodes.is_result(node) {
            return None;
        }
        let mut readers = self.nodes.readers[node]
            .iter()
            .map(|reader| self.of[*reader]);
        let first = readers.next()??;
        readers.all(|reader| reader == Some(first)).then_some(first)
    }

    /// Merges the nodes after products, and the nodes before reductions of columns, into them.
    fn take_in(&mut self) {
        for index in 0..self.groups.len() {
            let Some(group) = self.groups[index].clone() else {
                continue;
            };
            match group.shape {
                Shape::MatMul => self.take_in_after(index, &group),
                Shape::Columns => self.take_in_before(index, &group),
                _ => {}
            }
        }
    }

    fn take_in_after(&mut self, index: usize, group: &Group) {
        let product = group.nodes[0];
        let tensor = &self.nodes.list[product];
        let Some(after) = self.only_reader(product) else {
            return;
        };
        let Some(next) = self.groups[after].clone() else {
            return;
        };
        let is_seen_plainly = next.nodes.iter().all(|node| {
            let mut inputs = self.nodes.list[*node].0.inputs.iter();
            inputs.all(|input| self.nodes.root_of(input).0 != product || self.nodes.is_whole(input))
        });
        let n = tensor.shape().last().copied().unwrap_or(0);
        let halves = next
            .nodes
            .iter()
            .any(|node| self.nodes.list[*node].dtype() == DType::F16);
        let elements = next
            .nodes
            .iter()
            .all(|node| matches!(self.nodes.list[*node].0.op, Op::Element(_)));
        if next.shape != Shape::Map(tensor.count())
            || !is_seen_plainly
            || !elements
            || (halves && n % 4 != 0)
        {
            return;
        }
        let mut nodes = group.nodes.clone();
        nodes.extend(&next.nodes);
        if self.bindings(&nodes) + 2 > self.limits.bindings {
            return;
        }
        self.groups[index] = None;
        self.merge_as(after, Shape::MatMul, next.level, nodes);
    }

    fn take_in_before(&mut self, index: usize, group: &Group) {
        let reduction = group.nodes[0];
        let tensor = &self.nodes.list[reduction];
        let (root, _) = self.nodes.root_of(&tensor.0.inputs[0]);
        let is_whole = self.nodes.is_whole(&tensor.0.inputs[0]);
        let Some(before) = self.of[root].filter(|_| is_whole) else {
            return;
        };
        let Some(previous) = self.groups[before].clone() else {
            return;
        };
        let inner = |node: &usize| *node == root || self.only_reader(*node) == Some(before);
        let fits = previous.shape == Shape::Map(self.nodes.list[root].count())
            && self.only_reader(root) == Some(index)
            && previous.nodes.iter().all(inner);
        let mut nodes = previous.nodes.clone();
        nodes.push(reduction);
        if fits && self.bindings(&nodes) <= self.limits.bindings {
            self.groups[before] = None;
            self.merge_as(index, Shape::Columns, group.level, nodes);
        }
    }

    /// Merges maps of lower levels that maps read element by element, if all other readers come later.
    fn take_in_maps(&mut self) {
        for index in 0..self.groups.len() {
            let Some(group) = self.groups[index].clone() else {
                continue;
            };
            let Some(after) = self.later_map(index, &group) else {
                continue;
            };
            let Some(next) = self.groups[after].clone() else {
                continue;
            };
            let mut nodes = group.nodes;
            nodes.extend(&next.nodes);
            nodes.sort_unstable();
            if nodes.len() <= MOST_NODES && self.bindings(&nodes) <= self.limits.bindings {
                self.groups[index] = None;
                self.merge_as(after, next.shape, next.level, nodes);
            }
        }
    }

    /// Returns the first map over the same number of elements that reads a map, element by element only.
    fn later_map(&self, index: usize, group: &Group) -> Option<usize> {
        if !matches!(group.shape, Shape::Map(_)) {
            return None;
        }
        let readers = group
            .nodes
            .iter()
            .flat_map(|node| &self.nodes.readers[*node]);
        let mut others: Vec<usize> = readers
            .filter_map(|reader| self.of[*reader])
            .filter(|other| *other != index)
            .collect();
        others.sort_unstable();
        others.dedup();
        let after = *others.iter().min_by_key(|other| self.level(**other))?;
        let next = self.group(after)?;
        // A reader at the same level might have to run between the two.
        let is_first = |other: &usize| *other == after || self.level(*other) > next.level;
        let is_seen_plainly = next.nodes.iter().all(|node| {
            let tensor = &self.nodes.list[*node];
            let is_element = matches!(tensor.0.op, Op::Element(_));
            let mut inputs = tensor.0.inputs.iter();
            inputs.all(|input| {
                let (root, _) = self.nodes.root_of(input);
                !group.nodes.contains(&root) || (is_element && self.nodes.is_whole(input))
            })
        });
        let fits = next.shape == group.shape && next.level > group.level;
        (fits && others.iter().all(is_first) && is_seen_plainly).then_some(after)
    }

    fn merge_as(&mut self, index: usize, shape: Shape, level: usize, nodes: Vec<usize>) {
        for node in &nodes {
            self.of[*node] = Some(index);
        }
        self.groups[index] = Some(Group {
            level,
            shape,
            nodes,
            more: None,
            links: Vec::new(),
        });
    }
}

/// Returns true if a joint group of rows would have 16-bit elements that rows cannot store.
fn here_halves(
    builder: &Builder<'_>,
    operands: &[(usize, usize, Sight)],
    level: usize,
    n: usize,
) -> bool {
    let here = operands.iter().filter(|o| builder.level(o.0) == level);
    let mut nodes = here
        .filter_map(|o| builder.group(o.0))
        .flat_map(|group| &group.nodes);
    !n.is_multiple_of(4) && nodes.any(|node| builder.nodes.list[*node].dtype() == DType::F16)
}

/// Returns the names of nodes for labels: the operations, in order.
pub(crate) fn label(nodes: &Nodes, group: &Group) -> String {
    let mut names: Vec<String> = Vec::new();
    for node in &group.nodes {
        let name = match &nodes.list[*node].0.op {
            Op::Element(ElementOp::Round16) => continue,
            Op::Reduce(op @ (ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min), [_, _, inner]) => {
                format!(
                    "{}_{}",
                    op.name(),
                    if *inner == 1 { "rows" } else { "columns" }
                )
            }
            op => op.title(),
        };
        names.push(name);
    }
    if names.is_empty() {
        names.push("to_f16".to_owned());
    }
    const MOST: usize = 6;
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let mut label = names.join("+");
    if more > 0 {
        label.push_str(&format!("+{more}"));
    }
    label
}
