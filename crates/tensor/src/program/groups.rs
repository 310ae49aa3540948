//! Which nodes share a kernel.
//!
//! 1. Nodes are visited in the order in which they were made. Each group has a level: it reads nothing but lower levels
//!    and itself, so groups of one level never wait for each other, and joining two of them makes no circle.
//! 2. A node's level is that of the highest group that it reads. If it can be computed along with all of those that are
//!    there (element by element over the same elements; or as a reduction of rows, or from one), they become one group;
//!    else it begins a group one level up. One kernel so computes several results, and softmax is one.
//! 3. Then products take in what follows them element by element (bias, activation, residual), and reductions of columns
//!    what comes before.
//! 4. Maps take in those of lower levels over as many elements that they read element by element: an optimizer's moments,
//!    and the value that also reads what scalars of their level give.
//! 5. Last, narrow products of what another one gave become chains: see `chain`.

use super::Limits;
use super::added::Added;
use super::nodes::Nodes;
use crate::graph::element::ElementOp;
use crate::graph::layout::Layout;
use crate::graph::tensor::{DType, Op, ReduceOp};
use dapple_base::{Error, Result};

/// Instructions of a kernel at most: registers are few.
const MOST_NODES: usize = 64;

/// Nodes of one kernel.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub level: usize,
    pub shape: Shape,
    /// In the order in which they were made.
    pub nodes: Vec<usize>,
    /// Of a product: another that is added to it.
    pub more: Option<Added>,
    /// Of a chain: the nodes of each product, it first.
    pub links: Vec<Vec<usize>>,
}

/// What a group goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Map(usize),
    Rows(usize, usize),
    /// A reduction of columns.
    Columns,
    MatMul,
    Scatter,
    /// Products one after another on the same rows.
    Chain,
}

/// How a node sees an operand of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Element by element.
    Same,
    /// The row's, for each of its `n` elements.
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
    /// Whether a node of a group of rows is one for each row.
    by_row: Vec<bool>,
}

/// Groups in an order in which they can run.
///
/// # Errors
/// Groups that wait for each other: a defect.
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
    /// Operands that are computed: group, and how they are seen.
    fn operands(&self, node: usize) -> Vec<(usize, usize, Sight)> {
        let inputs = self.nodes.list[node].0.inputs.iter();
        let seen = inputs.filter_map(|input| {
            let (node, layout) = self.nodes.look(input);
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

    /// What a node goes over by itself, and whether it is one for each row.
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

    /// What the groups that a node reads at `level` and the node go over together, and whether the node is one for each
    /// row; `None` if they cannot.
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
        // The rows that there are, if any group or the node has some.
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
                // All of it becomes elements.
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

    /// Whether a kernel of these groups and the node binds no more than it may.
    fn fits(&self, node: usize, joined: &[usize]) -> bool {
        let mut all: Vec<usize> = joined
            .iter()
            .filter_map(|g| self.group(*g))
            .flat_map(|g| g.nodes.clone())
            .collect();
        all.push(node);
        all.len() <= MOST_NODES && self.bindings(&all) <= self.limits.bindings
    }

    /// What a kernel of these nodes binds, at most: a buffer may be bound for two ways to load it.
    pub fn bindings(&self, all: &[usize]) -> usize {
        let mut read: Vec<(usize, bool)> = Vec::new();
        for node in all {
            for input in &self.nodes.list[*node].0.inputs {
                let (root, _) = self.nodes.look(input);
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

    /// The only group, other than its own, that reads a node; `None` if several do, or the plan's end.
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

    /// Products take in what follows, reductions of columns what comes before.
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
            inputs.all(|input| self.nodes.look(input).0 != product || self.nodes.is_whole(input))
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
        let (root, _) = self.nodes.look(&tensor.0.inputs[0]);
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

    /// Maps take in maps of lower levels that they read element by element, where all else that reads those comes later.
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

    /// The map over as many elements that reads a map first, element by element alone.
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
        // One that reads it at the same level might have to run between the two.
        let is_first = |other: &usize| *other == after || self.level(*other) > next.level;
        let is_seen_plainly = next.nodes.iter().all(|node| {
            let tensor = &self.nodes.list[*node];
            let is_element = matches!(tensor.0.op, Op::Element(_));
            let mut inputs = tensor.0.inputs.iter();
            inputs.all(|input| {
                let (root, _) = self.nodes.look(input);
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

/// Whether a group that would become one of rows has 16-bit elements that rows cannot store.
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

/// Names of nodes for labels: the operations, in order.
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
