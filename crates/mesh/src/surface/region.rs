//! Part of a mesh in which a thread collapses edges.

use super::simplify::{Collapse, Quadric};
use glam::DVec3;

/// Consecutive vertices and triangles of a mesh, or all.
pub struct Region<'a> {
    /// Index of the first vertex.
    pub first_vertex: u32,
    /// Index of the first triangle.
    pub first_triangle: u32,
    /// Places of the vertices.
    pub places: &'a mut [DVec3],
    /// Quadrics of the vertices.
    pub quadrics: &'a mut [Quadric],
    /// Triangles around each vertex.
    pub around: &'a mut [Vec<u32>],
    /// True for vertices of an edge of one triangle.
    pub on_border: &'a mut [bool],
    /// True for vertices of an edge that is not between two triangles of opposite direction.
    pub on_rim: &'a mut [bool],
    /// True for vertices that this pass has moved: their costs are out of date.
    pub is_moved: &'a mut [bool],
    /// Vertices of the triangles.
    pub triangles: &'a mut [[u32; 3]],
    /// False for triangles that are gone.
    pub alive: &'a mut [bool],
}

/// Result of an attempt to collapse an edge.
enum Attempt {
    /// The edge is gone, with this number of triangles.
    Done(usize),
    /// The collapse would fold a triangle over, or make the mesh no manifold.
    Impossible,
    /// The triangles around the edge are not all of this region.
    Beyond,
}

/// Surroundings of an edge; every collapse fills the lists again.
#[derive(Debug, Default)]
struct Lists {
    /// Triangles with both vertices of the edge.
    shared: Vec<u32>,
    /// Neighbours of both vertices, sorted.
    neighbours: [Vec<u32>; 2],
}

impl Region<'_> {
    /// Collapses edges in order, each vertex at most once, until `most` triangles are gone. Returns the number of triangles
    /// that are gone, and the collapses that need more than this region.
    pub fn collapse(mut self, collapses: &[Collapse], most: usize) -> (usize, Vec<Collapse>) {
        let mut lists = Lists::default();
        let (mut gone, mut beyond) = (0, Vec::new());
        for collapse in collapses {
            if gone >= most {
                break;
            }
            let [a, b] = collapse.edge;
            if self.is_moved[self.vertex(a)] || self.is_moved[self.vertex(b)] {
                continue;
            }
            match self.attempt(a, b, &mut lists) {
                Attempt::Done(triangles) => {
                    gone += triangles;
                    for v in [a, b] {
                        let v = self.vertex(v);
                        self.is_moved[v] = true;
                    }
                }
                Attempt::Impossible => {}
                Attempt::Beyond => beyond.push(*collapse),
            }
        }
        (gone, beyond)
    }

    fn vertex(&self, vertex: u32) -> usize {
        (vertex - self.first_vertex) as usize
    }

    fn triangle(&self, triangle: u32) -> usize {
        (triangle - self.first_triangle) as usize
    }

    /// Returns the vertices of a triangle, if they and the triangle are of this region.
    fn own(&self, triangle: u32) -> Option<[u32; 3]> {
        let index = triangle.checked_sub(self.first_triangle)?;
        let found = *self.triangles.get(index as usize)?;
        let is_own = |v: &u32| {
            v.checked_sub(self.first_vertex)
                .is_some_and(|v| (v as usize) < self.places.len())
        };
        found.iter().all(is_own).then_some(found)
    }

    /// Fills the lists for an edge. Returns false if a triangle is not of this region.
    fn list(&self, a: u32, b: u32, lists: &mut Lists) -> bool {
        lists.shared.clear();
        for (v, found) in [a, b].into_iter().zip(&mut lists.neighbours) {
            found.clear();
            for &t in &self.around[self.vertex(v)] {
                let Some(triangle) = self.own(t) else {
                    return false;
                };
                found.extend(triangle.into_iter().filter(|&i| i != v));
                if v == a && triangle.contains(&b) {
                    lists.shared.push(t);
                }
            }
            found.sort_unstable();
            found.dedup();
        }
        true
    }

    /// Collapses `b` into `a`, if that is possible.
    fn attempt(&mut self, a: u32, b: u32, lists: &mut Lists) -> Attempt {
        if !self.list(a, b, lists) {
            return Attempt::Beyond;
        }
        let (ia, ib) = (self.vertex(a), self.vertex(b));
        let (shared, [of_a, of_b]) = (&lists.shared, &lists.neighbours);
        let common = of_a
            .iter()
            .filter(|i| of_b.binary_search(i).is_ok())
            .count();
        let is_border_edge = shared.len() == 1;
        let joins_borders = self.on_border[ia] && self.on_border[ib] && !is_border_edge;
        if shared.is_empty()
            || common != shared.len()
            || joins_borders
            || of_a.len() + of_b.len() < 7
        {
            return Attempt::Impossible;
        }
        let mut sum = self.quadrics[ia];
        sum.add(&self.quadrics[ib]);
        let mut place = sum.best(self.places[ia], self.places[ib]);
        if self.on_border[ia] != self.on_border[ib] {
            place = self.places[if self.on_border[ia] { ia } else { ib }];
        }
        if [a, b].into_iter().any(|v| self.folds(v, place, shared)) {
            return Attempt::Impossible;
        }
        for &t in shared {
            let index = self.triangle(t);
            self.alive[index] = false;
            for i in self.triangles[index] {
                let i = self.vertex(i);
                self.around[i].retain(|&other| other != t);
            }
        }
        for t in std::mem::take(&mut self.around[ib]) {
            let index = self.triangle(t);
            for i in &mut self.triangles[index] {
                if *i == b {
                    *i = a;
                }
            }
            self.around[ia].push(t);
        }
        self.places[ia] = place;
        self.quadrics[ia] = sum;
        self.on_border[ia] |= self.on_border[ib];
        self.on_rim[ia] |= self.on_rim[ib];
        Attempt::Done(shared.len())
    }

    /// Returns true if a triangle around a vertex, except those of the edge, turns over when the vertex moves.
    fn folds(&self, v: u32, place: DVec3, shared: &[u32]) -> bool {
        let around = self.around[self.vertex(v)].iter();
        around.filter(|t| !shared.contains(t)).any(|&t| {
            let corners = self.triangles[self.triangle(t)];
            let old = corners.map(|i| self.places[self.vertex(i)]);
            let new = corners.map(|i| match i == v {
                true => place,
                false => self.places[self.vertex(i)],
            });
            let cross = |[p, q, r]: [DVec3; 3]| (q - p).cross(r - p);
            let (old, new) = (cross(old), cross(new));
            new.dot(old) <= 0.2 * new.length() * old.length()
        })
    }
}
