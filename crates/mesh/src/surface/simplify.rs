//! Simplification by edge collapses with quadric errors (Garland and Heckbert, 1997), in passes: costs of all edges in
//! parallel, then the cheapest collapses in order. Nothing depends on the number of threads. A queue of single collapses
//! took most of the time of a mesh of millions of triangles.
//!
//! Idea of passes with a limit of cost: meshoptimizer (MIT).

use crate::mesh::{Edges, Mesh};
use glam::{DMat3, DVec3};
use rayon::prelude::*;
use std::cmp::Ordering;

/// Weight of planes through boundary edges, so that borders keep their shape.
const BORDER: f64 = 10.0;

/// Symmetric 4x4 matrix: sum of squared distances to planes.
#[derive(Debug, Clone, Copy, Default)]
struct Quadric {
    a: [f64; 6],
    b: DVec3,
    c: f64,
}

impl Quadric {
    fn plane(normal: DVec3, point: DVec3, weight: f64) -> Self {
        let d = -normal.dot(point);
        let DVec3 { x, y, z } = normal;
        Self {
            a: [x * x, x * y, x * z, y * y, y * z, z * z].map(|v| v * weight),
            b: normal * (d * weight),
            c: d * d * weight,
        }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.a.iter_mut().zip(other.a) {
            *mine += theirs;
        }
        self.b += other.b;
        self.c += other.c;
    }

    fn matrix(&self) -> DMat3 {
        let [xx, xy, xz, yy, yz, zz] = self.a;
        DMat3::from_cols_array(&[xx, xy, xz, xy, yy, yz, xz, yz, zz])
    }

    fn error(&self, p: DVec3) -> f64 {
        (p.dot(self.matrix() * p) + 2.0 * self.b.dot(p) + self.c).max(0.0)
    }

    /// Returns the place of the least error near an edge.
    fn best(&self, from: DVec3, to: DVec3) -> DVec3 {
        let middle = (from + to) * 0.5;
        let matrix = self.matrix();
        let scale = self.a[0] + self.a[3] + self.a[5];
        if matrix.determinant() > 1e-6 * scale * scale * scale {
            let place = matrix.inverse() * -self.b;
            if place.distance(middle) <= from.distance(to) {
                return place;
            }
        }
        let places = [middle, from, to];
        let least = places
            .into_iter()
            .min_by(|&p, &q| self.error(p).total_cmp(&self.error(q)));
        least.unwrap_or(middle)
    }
}

/// Possible collapse.
#[derive(Debug, Clone, Copy)]
struct Collapse {
    cost: f64,
    edge: [u32; 2],
}

/// Order by cost, then by edge.
fn by_cost(a: &Collapse, b: &Collapse) -> Ordering {
    a.cost.total_cmp(&b.cost).then(a.edge.cmp(&b.edge))
}

/// Returns the power of two at or below a cost that is not negative. Within an octave, collapses come in the order of the mesh, which
/// is that of its memory.
fn octave(cost: f64) -> u64 {
    cost.to_bits() >> (f64::MANTISSA_DIGITS - 1)
}

/// Factor on the cost of the last collapse that a pass needs, above which collapses wait for the next pass.
const SLACK: f64 = 1.5;

/// A pass tries at least one of this number of edges, so that there are few passes.
const LEAST_SHARE: usize = 64;

struct Work {
    origin: DVec3,
    places: Vec<DVec3>,
    quadrics: Vec<Quadric>,
    triangles: Vec<[u32; 3]>,
    alive: Vec<bool>,
    around: Vec<Vec<u32>>,
    on_border: Vec<bool>,
    /// True for the vertices of an edge that is not between two triangles of opposite direction.
    on_rim: Vec<bool>,
    left: usize,
    lists: Lists,
}

/// Lists that every collapse fills again.
#[derive(Debug, Default)]
struct Lists {
    /// Triangles with both vertices of the edge.
    shared: Vec<u32>,
    /// Neighbours of both vertices, sorted.
    neighbours: [Vec<u32>; 2],
}

/// Collapses edges until the mesh has at most `target` triangles, or the next collapse moves the surface by more than
/// `most_error` world units (root of the mean square). Discards normals, colours and texture.
pub fn simplify(mesh: &Mesh, target: usize, most_error: f32) -> Mesh {
    if mesh.triangles.len() <= target {
        return mesh.clone();
    }
    let mut work = Work::new(mesh);
    let limit = f64::from(most_error) * f64::from(most_error);
    while work.left > target {
        let mut collapses = work.collapses();
        let needed = (work.left - target).div_ceil(2);
        let mut tried = needed.max(collapses.len() / LEAST_SHARE);
        // The cheapest collapses may all be impossible.
        while !work.pass(&mut collapses, target, limit, tried) {
            if tried >= collapses.len() {
                return work.finished();
            }
            tried *= 4;
        }
    }
    work.finished()
}

impl Work {
    fn new(mesh: &Mesh) -> Self {
        let origin = mesh.positions.first().map_or(DVec3::ZERO, |p| p.as_dvec3());
        let places: Vec<DVec3> = mesh
            .positions
            .iter()
            .map(|p| p.as_dvec3() - origin)
            .collect();
        let mut quadrics = vec![Quadric::default(); places.len()];
        let mut degrees = vec![0; places.len()];
        for &i in mesh.triangles.as_flattened() {
            degrees[i as usize] += 1;
        }
        let mut around: Vec<Vec<u32>> = degrees.into_iter().map(Vec::with_capacity).collect();
        let normal = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|i| places[i as usize]);
            (b - a).cross(c - a)
        };
        for (t, triangle) in mesh.triangles.iter().enumerate() {
            let cross = normal(triangle);
            let area = cross.length() * 0.5;
            let plane = Quadric::plane(
                cross.normalize_or_zero(),
                places[triangle[0] as usize],
                area,
            );
            for &i in triangle {
                quadrics[i as usize].add(&plane);
                around[i as usize].push(t as u32);
            }
        }
        let mut on_border = vec![false; places.len()];
        let mut on_rim = vec![false; places.len()];
        for (edge, uses) in Edges::from_mesh(mesh).groups() {
            if let [a, b] = uses
                && a.forward != b.forward
            {
                continue;
            }
            edge.iter().for_each(|&i| on_rim[i as usize] = true);
            let [only] = uses else {
                continue;
            };
            let [a, b] = edge.map(|i| places[i as usize]);
            let along = b - a;
            let across = along.cross(normal(&mesh.triangles[only.triangle as usize]));
            let weight = BORDER * along.length_squared();
            let plane = Quadric::plane(across.normalize_or_zero(), a, weight);
            for i in edge {
                quadrics[i as usize].add(&plane);
                on_border[i as usize] = true;
            }
        }
        Self {
            origin,
            alive: vec![true; mesh.triangles.len()],
            left: mesh.triangles.len(),
            triangles: mesh.triangles.clone(),
            places,
            quadrics,
            around,
            on_border,
            on_rim,
            lists: Lists::default(),
        }
    }

    /// Returns the collapse of an edge; its cost is the mean squared distance to the planes of both vertices.
    fn collapse(&self, edge: [u32; 2]) -> Collapse {
        let [a, b] = edge.map(|i| i as usize);
        let mut sum = self.quadrics[a];
        sum.add(&self.quadrics[b]);
        let place = sum.best(self.places[a], self.places[b]);
        // The trace is the sum of the weights of all planes.
        let weight = sum.a[0] + sum.a[3] + sum.a[5];
        Collapse {
            // Short edges first among equals, so that flat parts get triangles of even shape.
            cost: (sum.error(place)
                + 1e-9 * weight * self.places[a].distance_squared(self.places[b]))
                / weight.max(f64::MIN_POSITIVE),
            edge,
        }
    }

    /// Returns the collapses of all edges, in no order; those along rims twice.
    fn collapses(&self) -> Vec<Collapse> {
        let alive = (0..self.triangles.len())
            .into_par_iter()
            .filter(|&t| self.alive[t]);
        // Two triangles run along most edges, in opposite directions.
        let is_rim = |p: u32, q: u32| self.on_rim[p as usize] && self.on_rim[q as usize];
        let edges = alive.flat_map_iter(|t| {
            let [a, b, c] = self.triangles[t];
            let edges = [[a, b], [b, c], [c, a]].into_iter();
            let edges = edges.filter(|&[p, q]| p < q || is_rim(p, q));
            edges.map(|[p, q]| [p.min(q), p.max(q)])
        });
        edges.map(|edge| self.collapse(edge)).collect()
    }

    /// Collapses edges, the cheapest first and each vertex at most once, as far as the cost is at most `limit`, and not
    /// much more than that of collapse `tried`. Returns true if there was one.
    fn pass(
        &mut self,
        collapses: &mut [Collapse],
        target: usize,
        limit: f64,
        tried: usize,
    ) -> bool {
        let most_cost = match tried < collapses.len() {
            true => limit.min(SLACK * collapses.select_nth_unstable_by(tried, by_cost).1.cost),
            false => limit,
        };
        let cheap = collapses.par_iter().filter(|c| c.cost <= most_cost);
        let mut cheap: Vec<Collapse> = cheap.copied().collect();
        cheap.par_sort_unstable_by_key(|collapse| (octave(collapse.cost), collapse.edge));
        cheap.dedup_by_key(|collapse| collapse.edge);
        let mut is_moved = vec![false; self.places.len()];
        let before = self.left;
        for collapse in &cheap {
            let [a, b] = collapse.edge;
            // The costs of a moved vertex are out of date.
            if is_moved[a as usize] || is_moved[b as usize] || !self.apply(a, b) {
                continue;
            }
            is_moved[a as usize] = true;
            is_moved[b as usize] = true;
            if self.left <= target {
                break;
            }
        }
        self.left < before
    }

    /// Fills the lists for an edge.
    fn list(&self, [a, b]: [u32; 2], lists: &mut Lists) {
        let of_edge = |t: &&u32| self.triangles[**t as usize].contains(&b);
        lists.shared.clear();
        let shared = self.around[a as usize].iter().filter(of_edge);
        lists.shared.extend(shared);
        for (v, found) in [a, b].into_iter().zip(&mut lists.neighbours) {
            found.clear();
            let corners = self.around[v as usize].iter();
            let corners = corners.flat_map(|&t| self.triangles[t as usize]);
            found.extend(corners.filter(|&i| i != v));
            found.sort_unstable();
            found.dedup();
        }
    }

    /// Collapses `b` into `a`, unless that would fold a triangle over or make the mesh no manifold.
    fn apply(&mut self, a: u32, b: u32) -> bool {
        let mut lists = std::mem::take(&mut self.lists);
        self.list([a, b], &mut lists);
        let is_done = self.apply_listed(a, b, &lists);
        self.lists = lists;
        is_done
    }

    fn apply_listed(&mut self, a: u32, b: u32, lists: &Lists) -> bool {
        let (ia, ib) = (a as usize, b as usize);
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
            return false;
        }
        let mut sum = self.quadrics[ia];
        sum.add(&self.quadrics[ib]);
        let mut place = sum.best(self.places[ia], self.places[ib]);
        if self.on_border[ia] != self.on_border[ib] {
            place = self.places[if self.on_border[ia] { ia } else { ib }];
        }
        let folds = |v: u32| {
            self.around[v as usize]
                .iter()
                .filter(|t| !shared.contains(t))
                .any(|&t| {
                    let old = self.triangles[t as usize].map(|i| self.places[i as usize]);
                    let moved = |i: u32| {
                        if i == v {
                            place
                        } else {
                            self.places[i as usize]
                        }
                    };
                    let new = self.triangles[t as usize].map(moved);
                    let cross = |[p, q, r]: [DVec3; 3]| (q - p).cross(r - p);
                    let (old, new) = (cross(old), cross(new));
                    new.dot(old) <= 0.2 * new.length() * old.length()
                })
        };
        if folds(a) || folds(b) {
            return false;
        }
        for &t in shared {
            self.alive[t as usize] = false;
            self.left -= 1;
            for i in self.triangles[t as usize] {
                self.around[i as usize].retain(|&other| other != t);
            }
        }
        for t in std::mem::take(&mut self.around[ib]) {
            for i in &mut self.triangles[t as usize] {
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
        true
    }

    fn finished(self) -> Mesh {
        let positions = self.places.iter().map(|&p| (p + self.origin).as_vec3());
        let all = Mesh {
            positions: positions.collect(),
            triangles: self.triangles,
            ..Mesh::default()
        };
        all.filtered(|t| self.alive[t])
    }
}
