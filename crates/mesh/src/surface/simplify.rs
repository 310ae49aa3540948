//! Simplification by edge collapses with quadric errors (Garland and Heckbert, 1997), in passes: costs of all edges in
//! parallel, then the cheapest collapses: side by side in regions of the mesh, then those between regions. Nothing depends
//! on the number of threads. A queue of single collapses took most of the time of a mesh of millions of triangles.
//!
//! Idea of passes with a limit of cost: meshoptimizer (MIT).

use super::region::Region;
use crate::corners::Corners;
use crate::mesh::Mesh;
use dapple_scene::order::morton_order;
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

/// Weight of planes through boundary edges, so that borders keep their shape.
const BORDER: f64 = 10.0;

/// Symmetric 4x4 matrix: sum of squared distances to planes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quadric {
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

    /// Adds another quadric.
    pub fn add(&mut self, other: &Self) {
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
    pub fn best(&self, from: DVec3, to: DVec3) -> DVec3 {
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
pub struct Collapse {
    cost: f64,
    /// Its vertices.
    pub edge: [u32; 2],
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

/// Number of edges whose costs estimate those of all.
const SAMPLES: usize = 1 << 16;

/// Least vertices of a region.
const REGION: usize = 1 << 14;

/// Most regions of a mesh.
const REGIONS: usize = 64;

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
    is_moved: Vec<bool>,
    left: usize,
    /// Vertices of a region: consecutive ones along a Morton curve.
    region: usize,
    /// Number of triangles of each region: those whose vertices are all in it at first. Triangles between regions follow.
    of_regions: Vec<usize>,
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
        let collapses = work.collapses();
        let needed = (work.left - target).div_ceil(2);
        let mut tried = needed.max(collapses.len() / LEAST_SHARE);
        // The cheapest collapses may all be impossible.
        while !work.pass(&collapses, target, limit, tried) {
            if tried >= collapses.len() {
                return work.finished();
            }
            tried *= 4;
        }
    }
    work.finished()
}

/// Sorts triangles by region and place, those between regions last. Returns the number of each region.
fn sort_by_region(triangles: &mut [[u32; 3]], vertices: usize, region: usize) -> Vec<usize> {
    let regions = vertices.div_ceil(region);
    let region_of = |triangle: &[u32; 3]| {
        let [a, b, c] = triangle.map(|v| v as usize / region);
        if a == b && b == c { a } else { regions }
    };
    triangles.par_sort_unstable_by_key(|t| (region_of(t), *t));
    let ends = (0..regions).map(|r| triangles.partition_point(|t| region_of(t) <= r));
    let mut first = 0;
    ends.map(|end| end - std::mem::replace(&mut first, end))
        .collect()
}

/// Returns the positions along a Morton curve, so that a region of consecutive vertices is compact, and the triangles.
fn along_curve(mesh: &Mesh) -> (Vec<Vec3>, Vec<[u32; 3]>) {
    let positions: Vec<[f32; 3]> = mesh.positions.par_iter().map(Vec3::to_array).collect();
    let order = morton_order(&positions);
    let mut place = vec![0u32; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    let moved = mesh.triangles.par_iter();
    (
        order.par_iter().map(|&i| mesh.positions[i]).collect(),
        moved.map(|t| t.map(|i| place[i as usize])).collect(),
    )
}

impl Work {
    fn new(mesh: &Mesh) -> Self {
        let (positions, mut triangles) = along_curve(mesh);
        let origin = positions.first().map_or(DVec3::ZERO, |p| p.as_dvec3());
        let places = positions.par_iter().map(|p| p.as_dvec3() - origin);
        let places: Vec<DVec3> = places.collect();
        let region = places.len().div_ceil(REGIONS).max(REGION);
        let of_regions = sort_by_region(&mut triangles, places.len(), region);
        let corners = Corners::new(&triangles, places.len());
        let of_vertex = |v: u32| corners.of(v).iter().map(|corner| corner / 3);
        let vertices = (0..places.len() as u32).into_par_iter();
        let around: Vec<Vec<u32>> = vertices.map(|v| of_vertex(v).collect()).collect();
        let normal = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|i| places[i as usize]);
            (b - a).cross(c - a)
        };
        let plane = |&t: &u32| {
            let triangle = &triangles[t as usize];
            let cross = normal(triangle);
            let place = places[triangle[0] as usize];
            Quadric::plane(cross.normalize_or_zero(), place, cross.length() * 0.5)
        };
        let planes = around.par_iter().map(|around| {
            let mut sum = Quadric::default();
            around.iter().for_each(|t| sum.add(&plane(t)));
            sum
        });
        let mut quadrics: Vec<Quadric> = planes.collect();
        let mut on_border = vec![false; places.len()];
        let mut on_rim = vec![false; places.len()];
        for open in corners.open_edges() {
            open.edge.iter().for_each(|&i| on_rim[i as usize] = true);
            if !open.is_border() {
                continue;
            }
            let [a, b] = open.edge.map(|i| places[i as usize]);
            let along = b - a;
            let across = along.cross(normal(&triangles[open.triangle as usize]));
            let weight = BORDER * along.length_squared();
            let plane = Quadric::plane(across.normalize_or_zero(), a, weight);
            for i in open.edge {
                quadrics[i as usize].add(&plane);
                on_border[i as usize] = true;
            }
        }
        Self {
            origin,
            alive: vec![true; triangles.len()],
            left: triangles.len(),
            is_moved: vec![false; places.len()],
            triangles,
            region,
            of_regions,
            places,
            quadrics,
            around,
            on_border,
            on_rim,
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
    fn pass(&mut self, collapses: &[Collapse], target: usize, limit: f64, tried: usize) -> bool {
        let most_cost = match tried < collapses.len() {
            true => {
                let step = (collapses.len() / SAMPLES).max(1);
                let costs = collapses.iter().step_by(step).map(|c| c.cost);
                let mut costs: Vec<f64> = costs.collect();
                let (_, last, _) = costs.select_nth_unstable_by(tried / step, f64::total_cmp);
                limit.min(SLACK * *last)
            }
            false => limit,
        };
        let region = self.region as u32;
        // Collapses between regions come last.
        let region_of = |[a, b]: [u32; 2]| match a / region == b / region {
            true => a / region,
            false => u32::MAX,
        };
        let key = |c: &Collapse| (region_of(c.edge), octave(c.cost), c.edge);
        let cheap = collapses.par_iter().filter(|c| c.cost <= most_cost);
        let mut cheap: Vec<Collapse> = cheap.copied().collect();
        cheap.par_sort_unstable_by_key(key);
        cheap.dedup_by_key(|collapse| collapse.edge);
        let before = self.left;
        self.is_moved.fill(false);
        let mut lists = vec![[].as_slice(); self.of_regions.len()];
        let mut between = Vec::new();
        for list in cheap.chunk_by(|a, b| region_of(a.edge) == region_of(b.edge)) {
            match lists.get_mut(region_of(list[0].edge) as usize) {
                Some(of_region) => *of_region = list,
                None => between.extend_from_slice(list),
            }
        }
        let most = self.left - target;
        // A share of what the pass needs for each region, by its collapses.
        let share = |list: &[Collapse]| most * list.len() / cheap.len().max(1);
        let done: Vec<_> = self
            .regions()
            .into_par_iter()
            .zip(&lists)
            .map(|(region, list)| region.collapse(list, share(list)))
            .collect();
        for (gone, beyond) in done {
            self.left -= gone;
            between.extend(beyond);
        }
        between.par_sort_unstable_by_key(|c| (octave(c.cost), c.edge));
        let most = self.left.saturating_sub(target);
        let (gone, _) = self.whole().collapse(&between, most);
        self.left -= gone;
        self.left < before
    }

    /// Returns the whole mesh.
    fn whole(&mut self) -> Region<'_> {
        Region {
            first_vertex: 0,
            first_triangle: 0,
            places: &mut self.places,
            quadrics: &mut self.quadrics,
            around: &mut self.around,
            on_border: &mut self.on_border,
            on_rim: &mut self.on_rim,
            is_moved: &mut self.is_moved,
            triangles: &mut self.triangles,
            alive: &mut self.alive,
        }
    }

    /// Returns the regions.
    fn regions(&mut self) -> Vec<Region<'_>> {
        let region = self.region;
        let places = self.places.chunks_mut(region);
        let quadrics = self.quadrics.chunks_mut(region);
        let around = self.around.chunks_mut(region);
        let on_border = self.on_border.chunks_mut(region);
        let on_rim = self.on_rim.chunks_mut(region);
        let is_moved = self.is_moved.chunks_mut(region);
        let vertices = places.zip(quadrics).zip(around).zip(on_border);
        let vertices = vertices.zip(on_rim).zip(is_moved).enumerate();
        let (mut triangles, mut alive) = (&mut self.triangles[..], &mut self.alive[..]);
        let mut first = 0;
        let mut regions = Vec::with_capacity(self.of_regions.len());
        for ((i, vertices), &count) in vertices.zip(&self.of_regions) {
            let (own, rest) = triangles.split_at_mut(count);
            let (own_alive, rest_alive) = alive.split_at_mut(count);
            (triangles, alive) = (rest, rest_alive);
            let (((((places, quadrics), around), on_border), on_rim), is_moved) = vertices;
            regions.push(Region {
                first_vertex: (i * region) as u32,
                first_triangle: first,
                places,
                quadrics,
                around,
                on_border,
                on_rim,
                is_moved,
                triangles: own,
                alive: own_alive,
            });
            first += count as u32;
        }
        regions
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
