//! Corners of the triangles by vertex, and what follows from them: edges, borders, fans.

use crate::mesh::Mesh;
use rayon::prelude::*;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Corners of all triangles, by vertex. Corner c is that of triangle c / 3.
pub(crate) struct Corners<'a> {
    triangles: &'a [[u32; 3]],
    /// First corner of each vertex in `corners`, and the end.
    starts: Vec<u32>,
    /// Corners, in order for each vertex.
    corners: Vec<u32>,
}

/// Use of an edge by a triangle, seen from one of its vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    /// Other vertex of the edge.
    other: u32,
    triangle: u32,
    /// True if the triangle runs to the other vertex.
    forward: bool,
}

/// Edge that is not between two triangles of opposite direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenEdge {
    /// Vertices, the smaller first.
    pub edge: [u32; 2],
    /// First triangle with the edge.
    pub triangle: u32,
    /// True if this triangle runs from the smaller to the larger vertex.
    pub forward: bool,
    /// Number of triangles with the edge.
    uses: usize,
}

impl OpenEdge {
    /// Returns true for an edge of one triangle.
    pub fn is_border(&self) -> bool {
        self.uses == 1
    }
}

/// Numbers that several threads change.
pub(crate) fn atomics(values: Vec<u32>) -> Vec<AtomicU32> {
    values.into_iter().map(AtomicU32::new).collect()
}

/// Returns the numbers of [`atomics`].
pub(crate) fn plain(values: Vec<AtomicU32>) -> Vec<u32> {
    values.into_iter().map(AtomicU32::into_inner).collect()
}

/// Sorts consecutive parts of a list, given the start of each and the end of the last.
fn sort_parts(list: &mut [u32], starts: &[u32]) {
    /// Parts of one task.
    const PARTS: usize = 1 << 12;
    let (mut rest, mut tasks) = (list, Vec::new());
    for first in (0..starts.len() - 1).step_by(PARTS) {
        let bounds = &starts[first..starts.len().min(first + PARTS + 1)];
        let length = bounds[bounds.len() - 1] - bounds[0];
        let (own, after) = mem::take(&mut rest).split_at_mut(length as usize);
        tasks.push((own, bounds));
        rest = after;
    }
    tasks.into_par_iter().for_each(|(own, bounds)| {
        for part in bounds.windows(2) {
            let [start, end] = [0, 1].map(|i| (part[i] - bounds[0]) as usize);
            own[start..end].sort_unstable();
        }
    });
}

impl<'a> Corners<'a> {
    /// Sorts the corners of all triangles of a mesh.
    pub fn from_mesh(mesh: &'a Mesh) -> Self {
        Self::new(&mesh.triangles, mesh.positions.len())
    }

    /// Sorts the corners of all triangles. The indices of their vertices are below `vertices`.
    pub fn new(triangles: &'a [[u32; 3]], vertices: usize) -> Self {
        let of_corners = triangles.as_flattened();
        let add_one = |to: &[AtomicU32], v: usize| to[v].fetch_add(1, Relaxed);
        let counts = atomics(vec![0; vertices + 1]);
        of_corners.par_iter().for_each(|&v| {
            add_one(&counts, v as usize + 1);
        });
        let mut starts = plain(counts);
        for v in 1..starts.len() {
            starts[v] += starts[v - 1];
        }
        let next = atomics(starts.clone());
        let corners = atomics(vec![0; of_corners.len()]);
        of_corners.par_iter().enumerate().for_each(|(corner, &v)| {
            let place = add_one(&next, v as usize);
            corners[place as usize].store(corner as u32, Relaxed);
        });
        let mut corners = plain(corners);
        // Threads have filled the list of a vertex in any order.
        sort_parts(&mut corners, &starts);
        Self {
            triangles,
            starts,
            corners,
        }
    }

    /// Returns the corners of a vertex, ascending.
    pub fn of(&self, vertex: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|i| self.starts[vertex as usize + i] as usize);
        &self.corners[start..end]
    }

    /// Returns the number of vertices.
    fn vertices(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Returns the vertex `k` places after a corner in its triangle.
    pub fn vertex(&self, corner: u32, k: u32) -> u32 {
        self.triangles[corner as usize / 3][(corner as usize % 3 + k as usize) % 3]
    }

    /// Returns the edges that are not between two triangles of opposite direction, sorted by their vertices.
    pub fn open_edges(&self) -> Vec<OpenEdge> {
        let vertices = (0..self.vertices()).into_par_iter();
        let found = vertices.map_init(Vec::new, |uses: &mut Vec<Use>, v| {
            uses.clear();
            for &corner in self.of(v) {
                for (k, forward) in [(1, true), (2, false)] {
                    let other = self.vertex(corner, k);
                    if other > v {
                        uses.push(Use {
                            other,
                            triangle: corner / 3,
                            forward,
                        });
                    }
                }
            }
            uses.sort_unstable();
            let groups = uses.chunk_by(|a, b| a.other == b.other);
            let open = groups.filter(|uses| match uses {
                [a, b] => a.forward == b.forward,
                _ => true,
            });
            let edge = |uses: &[Use]| OpenEdge {
                edge: [v, uses[0].other],
                triangle: uses[0].triangle,
                forward: uses[0].forward,
                uses: uses.len(),
            };
            // Most vertices have none, so no memory is taken.
            open.map(edge).collect::<Vec<_>>()
        });
        found.flatten_iter().collect()
    }

    /// Returns the other triangle of each edge of a triangle, sorted by the vertices of the edges; `None` for an edge that
    /// is not of exactly two triangles.
    pub fn neighbours(&self, triangle: u32) -> [Option<u32>; 3] {
        let [a, b, c] = self.triangles[triangle as usize];
        let mut edges = [[a, b], [b, c], [c, a]].map(|[p, q]| [p.min(q), p.max(q)]);
        edges.sort_unstable();
        edges.map(|[p, q]| {
            let has_edge = |&&corner: &&u32| {
                let is_other = corner / 3 != triangle;
                is_other && (self.vertex(corner, 1) == q || self.vertex(corner, 2) == q)
            };
            let mut others = self.of(p).iter().filter(has_edge);
            match (others.next(), others.next()) {
                (Some(corner), None) => Some(corner / 3),
                _ => None,
            }
        })
    }

    /// Returns the vertices with several fans, and for each the first corner of the fan of each of its corners. A fan is a
    /// set of corners of a vertex that are linked over edges of exactly two triangles.
    pub fn several_fans(&self) -> Vec<(u32, Vec<u32>)> {
        let vertices = (0..self.vertices()).into_par_iter();
        let fans = vertices.map_init(Vec::new, |fans, v| {
            self.fans_of(v, fans);
            let is_one = fans.iter().all(|fan| Some(fan) == fans.first());
            (!is_one).then(|| (v, fans.clone()))
        });
        fans.flatten_iter().collect()
    }

    /// Lists the first corner of the fan of each corner of a vertex.
    fn fans_of(&self, vertex: u32, fans: &mut Vec<u32>) {
        let corners = self.of(vertex);
        fans.clear();
        fans.extend_from_slice(corners);
        for (i, &a) in corners.iter().enumerate() {
            // The edge to the next vertex of the triangle: that to the one before it in the other triangle.
            let to = self.vertex(a, 1);
            let along = |k: u32| {
                corners
                    .iter()
                    .enumerate()
                    .filter(move |&(_, &c)| self.vertex(c, k) == to)
            };
            let (mut same, mut opposite) = (along(1), along(2));
            let (Some(_), None, Some((j, _)), None) =
                (same.next(), same.next(), opposite.next(), opposite.next())
            else {
                continue;
            };
            let (a, b) = (fans[i].min(fans[j]), fans[i].max(fans[j]));
            fans.iter_mut()
                .filter(|fan| **fan == b)
                .for_each(|fan| *fan = a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_open_or_have_two_opposite_triangles() {
        // A strip of two triangles, a third on their edge, and one that runs the wrong way.
        let strip = [[0, 1, 2], [2, 1, 3]];
        let corners = Corners::new(&strip, 4);
        let open = corners.open_edges();
        assert_eq!(
            open.iter().map(|o| o.edge).collect::<Vec<_>>(),
            [[0, 1], [0, 2], [1, 3], [2, 3]]
        );
        assert!(open.iter().all(OpenEdge::is_border));
        assert_eq!(
            open.iter().map(|o| o.forward).collect::<Vec<_>>(),
            [true, false, true, false]
        );
        assert_eq!(corners.neighbours(0), [None, None, Some(1)]);
        assert_eq!(corners.neighbours(1), [Some(0), None, None]);

        let three = [[0, 1, 2], [2, 1, 3], [2, 1, 4]];
        let corners = Corners::new(&three, 5);
        let bad: Vec<_> = corners
            .open_edges()
            .into_iter()
            .filter(|o| !o.is_border())
            .collect();
        assert_eq!((bad.len(), bad[0].edge), (1, [1, 2]));
        assert_eq!(corners.neighbours(0), [None; 3]);

        let wrong = [[0, 1, 2], [1, 2, 3]];
        let corners = Corners::new(&wrong, 4);
        assert!(
            corners
                .open_edges()
                .iter()
                .any(|o| o.edge == [1, 2] && !o.is_border())
        );
        assert_eq!(corners.neighbours(0), [None, None, Some(1)]);
    }
}
