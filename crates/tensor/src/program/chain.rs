//! Chains: products one after another on the same rows, as small networks and their backward passes are, in one kernel. What
//! lies between two products stays with the workgroup; it is stored only where somebody else reads it.
//!
//! 1. A product whose first matrix is, as it is, what another product's group gives goes on with that group: if nothing else
//!    of it reads the group, nobody lies between the two, and both are narrow.
//! 2. As many follow as the kernel may bind and the workgroup's memory holds.
//! 3. Groups are then put in an order again: a chain waits for all that its links wait for.

use super::groups::{Builder, Group, Shape};
use crate::graph::tensor::{DType, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a link at most: rows of them stay in the workgroup's memory.
const WIDEST: usize = 128;
/// Fewer rows are a matter of launches alone, and other kernels cut their sums.
const LEAST_ROWS: usize = 64;
/// Nodes of a chain: each link has its own registers.
const MOST_NODES: usize = 64;
/// So many workgroups keep a large device busy.
const ENOUGH: usize = 200;
/// Rows of the largest tile.
const LARGE: usize = 64;
/// Bytes that a workgroup may share on every device.
pub(crate) const EVERYWHERE: usize = 16 << 10;

/// What a workgroup does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows of the chain.
    pub rows: usize,
    pub threads: usize,
    /// Rows of a link's matrix that are in the workgroup's memory at a time.
    pub depth: usize,
    /// Between rows, and between rows of a matrix, in fours: one more than there are, so that neighbours are in different
    /// banks.
    pub pitch: usize,
    pub matrix_pitch: usize,
}

impl Tile {
    /// For links from each of `widths` to the next, on `rows` rows; `None` if `bytes` of a workgroup do not hold it.
    pub fn of(rows: usize, widths: &[usize], bytes: usize) -> Option<Self> {
        let (last, before) = widths.split_last()?;
        let widest = before.iter().max()?;
        let widest_matrix = *widths[1..].iter().max().unwrap_or(last);
        let pitch = widest.div_ceil(4) + 1;
        let mut all = [LARGE, 32, 16]
            .into_iter()
            .flat_map(|tile| [16, 8].map(|depth| (tile, depth)));
        all.find_map(|(tile, depth)| {
            // Four rows by eight columns each: with eight by eight a GPU has too few of them to hide what each waits for.
            let threads = tile * if widest_matrix > 64 { 4 } else { 2 };
            let made = Self {
                rows: tile,
                threads: threads.max(32),
                depth,
                pitch,
                matrix_pitch: 0,
            };
            let padded = widths[1..].iter().map(|n| made.part(*n).padded());
            let made = Self {
                matrix_pitch: padded.max().unwrap_or(0) + 1,
                ..made
            };
            // More rows share a matrix where there is work for all; else what every device grants is enough.
            let most = if tile < LARGE {
                bytes.min(EVERYWHERE)
            } else {
                bytes
            };
            let few = tile == LARGE && rows < tile * ENOUGH;
            (!few && made.bytes() <= most).then_some(made)
        })
    }

    /// Of the workgroup's memory.
    pub fn bytes(&self) -> usize {
        (self.rows * self.pitch + self.depth * self.matrix_pitch) * 16
    }

    /// How its invocations share a link of `n` columns.
    pub fn part(&self, n: usize) -> Part {
        let fours = n.div_ceil(4);
        let columns = if fours > 8 { 2 } else { 1 };
        let across = fours.div_ceil(columns).next_power_of_two();
        let down = (self.threads / across).clamp(1, self.rows);
        Part {
            across,
            down,
            columns,
            rows: self.rows / down,
        }
    }
}

/// What invocations do of a link: a grid of them, and what each has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub across: usize,
    pub down: usize,
    /// Fours of columns of an invocation.
    pub columns: usize,
    pub rows: usize,
}

impl Part {
    /// Fours of columns of all of them: some may be beyond the last.
    pub fn padded(&self) -> usize {
        self.across * self.columns
    }
}

impl Builder<'_> {
    /// Makes chains of products; whether there is one.
    pub fn take_in_chains(&mut self) -> bool {
        let mut firsts: Vec<(usize, usize, usize)> = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            if let Some(group) = group.as_ref().filter(|group| self.is_link(group)) {
                firsts.push((group.level, group.nodes[0], index));
            }
        }
        firsts.sort_unstable();
        let mut found = false;
        for (_, _, index) in firsts {
            let Some(first) = self.groups[index].clone() else {
                continue;
            };
            let mut links = vec![first.nodes];
            let mut level = first.level;
            while let Some(next) = self.next_link(index, &links) {
                let Some(group) = self.groups[next].take() else {
                    break;
                };
                group
                    .nodes
                    .iter()
                    .for_each(|node| self.of[*node] = Some(index));
                level = group.level;
                links.push(group.nodes);
            }
            if links.len() > 1 {
                found = true;
                self.groups[index] = Some(Group {
                    level,
                    shape: Shape::Chain,
                    nodes: links.concat(),
                    more: None,
                    links,
                });
            }
        }
        found
    }

    /// Rows, length of the sum, columns of a product.
    fn sizes(&self, product: usize) -> Option<[usize; 3]> {
        let tensor = &self.nodes.list[product];
        match (tensor.shape(), tensor.0.inputs.first()?.shape()) {
            (&[m, n], &[_, k]) => Some([m, k, n]),
            _ => None,
        }
    }

    /// Whether it can be part of a chain: a plain product, narrow, of many rows.
    fn is_link(&self, group: &Group) -> bool {
        if group.shape != Shape::MatMul || group.more.is_some() {
            return false;
        }
        let inputs = &self.nodes.list[group.nodes[0]].0.inputs;
        let is_plain = |input| {
            let (node, _) = self.nodes.look(input);
            !self.nodes.is_virtual(node) && self.nodes.list[node].dtype() != DType::U32
        };
        let fits = |[m, k, n]: [usize; 3]| {
            m >= LEAST_ROWS && (1..=WIDEST).contains(&k) && (1..=WIDEST).contains(&n)
        };
        self.sizes(group.nodes[0]).is_some_and(fits) && inputs.iter().all(is_plain)
    }

    /// The group that goes on where a chain ends.
    fn next_link(&self, index: usize, links: &[Vec<usize>]) -> Option<usize> {
        let last = links.last()?;
        let readers = last.iter().flat_map(|node| &self.nodes.readers[*node]);
        let mut candidates: Vec<(usize, usize, usize)> = readers
            .filter_map(|reader| self.of[*reader])
            .filter(|group| *group != index)
            .filter_map(|at| {
                let group = self.group(at)?;
                Some((group.level, group.nodes[0], at))
            })
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut found = candidates.iter().map(|candidate| candidate.2);
        found.find(|candidate| self.continues(index, links, *candidate).is_some())
    }

    /// `Some` if a group can be the next link.
    fn continues(&self, index: usize, links: &[Vec<usize>], next: usize) -> Option<()> {
        let group = self.group(next).filter(|group| self.is_link(group))?;
        let product = group.nodes[0];
        let [m, k, n] = self.sizes(product)?;
        let mut widths = Vec::new();
        for link in links {
            let [rows, k, _] = self.sizes(link[0])?;
            (rows == m).then_some(())?;
            widths.push(k);
        }
        widths.extend([k, n]);
        Tile::of(m, &widths, self.limits.workgroup_bytes)?;
        let first = &self.nodes.list[product].0.inputs[0];
        let (passed, _) = self.nodes.look(first);
        (self.nodes.is_whole(first) && links.last()?.contains(&passed)).then_some(())?;
        // Its first matrix is all that it reads of the chain.
        for node in &group.nodes {
            let inputs = self.nodes.list[*node].0.inputs.iter();
            for input in inputs.skip(usize::from(*node == product)) {
                let read = self.of[self.nodes.source(input)];
                (read != Some(index)).then_some(())?;
            }
        }
        let mut all = links.concat();
        all.extend(&group.nodes);
        let fits = all.len() <= MOST_NODES && self.chain_bindings(&all) <= self.limits.bindings;
        (fits && !self.is_way_round(index, next)).then_some(())
    }

    /// What a kernel of these nodes binds: each look at what it reads, and what it stores.
    fn chain_bindings(&self, all: &[usize]) -> usize {
        let mut read = Vec::new();
        for node in all {
            for input in &self.nodes.list[*node].0.inputs {
                let (root, layout) = self.nodes.look(input);
                let is_constant = matches!(self.nodes.list[root].0.op, Op::Constant(_));
                let key = (root, layout.offset, layout.collapsed());
                if !is_constant && !all.contains(&root) && !read.contains(&key) {
                    read.push(key);
                }
            }
        }
        read.len()
            + all
                .iter()
                .filter(|node| self.is_stored(all, **node))
                .count()
    }

    fn is_stored(&self, all: &[usize], node: usize) -> bool {
        let mut readers = self.nodes.readers[node].iter();
        self.nodes.is_result(node) || readers.any(|reader| !all.contains(reader))
    }

    /// The groups that a group reads.
    fn read_by(&self, index: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        if let Some(group) = self.group(index) {
            let more = group.more.map(|added| [added.product, added.node]);
            for node in group.nodes.iter().chain(more.iter().flatten()) {
                let inputs = self.nodes.list[*node].0.inputs.iter();
                let read = inputs.filter_map(|input| self.of[self.nodes.source(input)]);
                found.extend(read.filter(|other| *other != index));
            }
        }
        found
    }

    /// Whether what `next` reads besides `index` needs `index` too.
    fn is_way_round(&self, index: usize, next: usize) -> bool {
        let mut pending: Vec<usize> = self.read_by(next).into_iter().collect();
        pending.retain(|group| *group != index);
        let mut seen: BTreeSet<usize> = pending.iter().copied().collect();
        while let Some(group) = pending.pop() {
            if group == index {
                return true;
            }
            let read = self.read_by(group);
            pending.extend(read.into_iter().filter(|other| seen.insert(*other)));
        }
        false
    }

    /// All groups, each after those that it reads; else by level and first node.
    pub fn in_order(&self) -> Vec<Group> {
        let key = |index: usize| {
            let group = self.group(index)?;
            Some((group.level, group.nodes[0], index))
        };
        let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
        let mut wanted: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        for index in 0..self.groups.len() {
            let read = self.read_by(index);
            if read.is_empty() {
                ready.extend(key(index));
            }
            waits.insert(index, read.len());
            for other in read {
                wanted.entry(other).or_default().push(index);
            }
        }
        let mut all = Vec::new();
        while let Some((_, _, index)) = ready.pop_first() {
            all.extend(self.group(index).cloned());
            for reader in wanted.remove(&index).unwrap_or_default() {
                if let Some(left) = waits.get_mut(&reader) {
                    *left -= 1;
                    if *left == 0 {
                        ready.extend(key(reader));
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_fits_what_browsers_grant() {
        for k in 1..=WIDEST {
            for n in 1..=WIDEST {
                for rows in [64, 1000, 1 << 20] {
                    let tile = Tile::of(rows, &[k, n, k], EVERYWHERE);
                    assert!(
                        tile.is_some_and(|tile| tile.bytes() <= EVERYWHERE),
                        "{k} {n}"
                    );
                    if let Some(tile) = tile {
                        let part = tile.part(n);
                        assert!(part.padded() * 4 >= n && part.padded() < tile.matrix_pitch);
                        assert!(part.across * part.down <= tile.threads, "{k} {n} {part:?}");
                        assert_eq!(part.rows * part.down, tile.rows);
                    }
                }
            }
        }
        let larger = Tile::of(1 << 20, &[32, 64, 64, 3], 48 << 10);
        assert_eq!(larger.map(|tile| tile.rows), Some(64));
    }
}
