//! Chains: consecutive products on the same rows, like small networks and their backward passes, in one kernel. Values
//! between two products stay with the workgroup; they are stored only if other kernels read them.
//!
//! 1. A product whose first matrix is the unchanged result of another product's group continues that group, if no other
//!    part of it reads the group, no group is between the two, and both are narrow.
//! 2. The number of links is limited by the bindings of a kernel and the workgroup's memory.
//! 3. Groups are then ordered again: a chain comes after all groups that its links depend on.

use super::groups::{Builder, Group, Shape};
use crate::graph::tensor::{DType, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum columns of a link: its rows stay in the workgroup's memory.
const WIDEST: usize = 128;
/// Minimum rows: below, the time of launches dominates, and other kernels cut the sums.
const LEAST_ROWS: usize = 64;
/// Maximum nodes of a chain: each link has its own registers.
const MOST_NODES: usize = 64;
/// Number of workgroups that keep a large device busy.
const ENOUGH: usize = 200;
/// Rows of the largest tile.
const LARGE: usize = 64;
/// Bytes that a workgroup may share on every device.
pub(crate) const EVERYWHERE: usize = 16 << 10;

/// Tile of a workgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows of the chain.
    pub rows: usize,
    pub threads: usize,
    /// Rows of a link's matrix that are in the workgroup's memory at a time.
    pub depth: usize,
    /// Distance of rows, and of rows of a matrix, in fours: one more than their length, so that neighbours are in
    /// different banks.
    pub pitch: usize,
    pub matrix_pitch: usize,
}

impl Tile {
    /// Returns the tile for links from each of `widths` to the next, on `rows` rows; `None` if it exceeds `bytes` of a
    /// workgroup.
    pub fn for_rows(rows: usize, widths: &[usize], bytes: usize) -> Option<Self> {
        let (last, before) = widths.split_last()?;
        let widest = before.iter().max()?;
        let widest_matrix = *widths[1..].iter().max().unwrap_or(last);
        let pitch = widest.div_ceil(4) + 1;
        let mut all = [LARGE, 32, 16]
            .into_iter()
            .flat_map(|tile| [16, 8].map(|depth| (tile, depth)));
        all.find_map(|(tile, depth)| {
            // Four rows by eight columns each: with eight by eight a GPU has too few invocations to hide their latency.
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
            // More rows share a matrix if there are enough rows; otherwise the memory of every device is enough.
            let most = if tile < LARGE {
                bytes.min(EVERYWHERE)
            } else {
                bytes
            };
            let few = tile == LARGE && rows < tile * ENOUGH;
            (!few && made.bytes() <= most).then_some(made)
        })
    }

    /// Returns the bytes in the workgroup's memory.
    pub fn bytes(&self) -> usize {
        (self.rows * self.pitch + self.depth * self.matrix_pitch) * 16
    }

    /// Returns the split of a link of `n` columns among the invocations.
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

/// Split of a link: a grid of invocations, and the part of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub across: usize,
    pub down: usize,
    /// Fours of columns per invocation.
    pub columns: usize,
    pub rows: usize,
}

impl Part {
    /// Returns the fours of columns of all invocations: some may be beyond the last.
    pub fn padded(&self) -> usize {
        self.across * self.columns
    }
}

impl Builder<'_> {
    /// Creates chains of products. Returns true if there is one.
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

    /// Returns rows, length of the sum, and columns of a product.
    fn sizes(&self, product: usize) -> Option<[usize; 3]> {
        let tensor = &self.nodes.list[product];
        match (tensor.shape(), tensor.0.inputs.first()?.shape()) {
            (&[m, n], &[_, k]) => Some([m, k, n]),
            _ => None,
        }
    }

    /// Returns true if a group can be part of a chain: a plain product, narrow, of many rows.
    fn is_link(&self, group: &Group) -> bool {
        if group.shape != Shape::MatMul || group.more.is_some() {
            return false;
        }
        let inputs = &self.nodes.list[group.nodes[0]].0.inputs;
        let is_plain = |input| {
            let (node, _) = self.nodes.root_of(input);
            !self.nodes.is_virtual(node) && self.nodes.list[node].dtype() != DType::U32
        };
        let fits = |[m, k, n]: [usize; 3]| {
            m >= LEAST_ROWS && (1..=WIDEST).contains(&k) && (1..=WIDEST).contains(&n)
        };
        self.sizes(group.nodes[0]).is_some_and(fits) && inputs.iter().all(is_plain)
    }

    /// Returns the group that continues a chain.
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

    /// Returns `Some` if a group can be the next link.
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
        Tile::for_rows(m, &widths, self.limits.workgroup_bytes)?;
        let first = &self.nodes.list[product].0.inputs[0];
        let (passed, _) = self.nodes.root_of(first);
        (self.nodes.is_whole(first) && links.last()?.contains(&passed)).then_some(())?;
        // The group may read only its first matrix from the chain.
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

    /// Returns the number of bindings of a kernel of these nodes: each access to its inputs, and its stores.
    fn chain_bindings(&self, all: &[usize]) -> usize {
        let mut read = Vec::new();
        for node in all {
            for input in &self.nodes.list[*node].0.inputs {
                let (root, layout) = self.nodes.root_of(input);
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

    /// Returns the groups that a group reads.
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

    /// Returns true if an input of `next` other than `index` depends on `index` too.
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

    /// Returns all groups, each after those that it reads; otherwise by level and first node.
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
                    let tile = Tile::for_rows(rows, &[k, n, k], EVERYWHERE);
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
        let larger = Tile::for_rows(1 << 20, &[32, 64, 64, 3], 48 << 10);
        assert_eq!(larger.map(|tile| tile.rows), Some(64));
    }
}
