//! The mesh: positions, triangles, and optional normals, colours and texture.

use crate::corners::{Corners, atomics};
use glam::{Vec2, Vec3};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Picture on a mesh.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Texture {
    /// Width and height, pixels.
    pub size: [u32; 2],
    /// sRGB colours, `[height, width, 3]`.
    pub rgb: Vec<u8>,
    /// Place of each corner of each triangle, 0 to 1 from the upper left corner of the picture.
    pub corners: Vec<[Vec2; 3]>,
}

/// Triangle mesh. Triangles are counterclockwise from outside.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mesh {
    /// Positions, world units.
    pub positions: Vec<Vec3>,
    /// Triangles, as indices of positions.
    pub triangles: Vec<[u32; 3]>,
    /// Unit normals per vertex; empty if not computed.
    pub normals: Vec<Vec3>,
    /// sRGB colours per vertex; empty without colours.
    pub colours: Vec<[u8; 3]>,
    /// Texture, if there is one.
    pub texture: Option<Texture>,
}

impl Mesh {
    /// Returns the corners of a triangle.
    pub fn corners(&self, triangle: usize) -> [Vec3; 3] {
        self.triangles[triangle].map(|i| self.positions[i as usize])
    }

    /// Returns twice the area of a triangle times its unit normal.
    pub fn cross(&self, triangle: usize) -> Vec3 {
        let [a, b, c] = self.corners(triangle);
        (b - a).cross(c - a)
    }

    /// Returns the least and the largest corner of the box around all positions; `None` without positions.
    pub fn bounds(&self) -> Option<[Vec3; 2]> {
        let first = *self.positions.first()?;
        let fold = |[low, high]: [Vec3; 2], p: &Vec3| [low.min(*p), high.max(*p)];
        Some(self.positions.iter().fold([first, first], fold))
    }

    /// Computes the normals: means over the triangles of a vertex, weighted by their angle at the vertex.
    pub fn compute_normals(&mut self) {
        self.normals = self.normals_at(&Corners::from_mesh(self));
    }

    /// Returns the normals, see [`Self::compute_normals`], given the corners of this mesh.
    pub(crate) fn normals_at(&self, corners: &Corners<'_>) -> Vec<Vec3> {
        let part = |&corner: &u32| {
            let (t, k) = (corner as usize / 3, corner as usize % 3);
            let normal = self.cross(t).try_normalize()?;
            let corners = self.corners(t);
            let [a, b] = [1, 2].map(|by| corners[(k + by) % 3] - corners[k]);
            let angle = a.angle_between(b);
            angle.is_finite().then(|| normal * angle)
        };
        let vertices = (0..self.positions.len() as u32).into_par_iter();
        let normals = vertices.map(|v| {
            let sum: Vec3 = corners.of(v).iter().filter_map(part).sum();
            sum.try_normalize().unwrap_or(Vec3::Z)
        });
        normals.collect()
    }

    /// Adds the positions and triangles of another mesh; both have nothing else.
    pub fn append(&mut self, other: &Self) {
        let first = self.positions.len() as u32;
        self.positions.extend(&other.positions);
        let moved = other.triangles.iter().map(|t| t.map(|i| i + first));
        self.triangles.extend(moved);
    }

    /// Keeps the triangles for which `keep` is true, and removes positions without triangles. Discards a texture.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(usize) -> bool + Sync) -> Self {
        let kept = (0..self.triangles.len()).into_par_iter();
        let kept = kept.filter(|&t| keep(t)).map(|t| self.triangles[t]);
        let triangles: Vec<[u32; 3]> = kept.collect();
        let index = atomics(vec![u32::MAX; self.positions.len()]);
        let at = |i: u32| &index[i as usize];
        let corners = triangles.as_flattened().par_iter();
        corners.for_each(|&i| at(i).store(0, Relaxed));
        let all = (0..index.len() as u32).into_par_iter();
        let used: Vec<u32> = all.filter(|&i| at(i).load(Relaxed) == 0).collect();
        let numbered = used.par_iter().enumerate();
        numbered.for_each(|(new, &old)| at(old).store(new as u32, Relaxed));
        let triangles = triangles.par_iter();
        Self {
            triangles: triangles.map(|t| t.map(|i| at(i).load(Relaxed))).collect(),
            ..self.gathered(&used)
        }
    }

    /// Returns the vertices of these indices, without triangles.
    pub(crate) fn gathered(&self, vertices: &[u32]) -> Self {
        fn of<T: Copy + Send + Sync>(values: &[T], vertices: &[u32]) -> Vec<T> {
            match values.is_empty() {
                true => Vec::new(),
                false => vertices.par_iter().map(|&i| values[i as usize]).collect(),
            }
        }
        Self {
            positions: of(&self.positions, vertices),
            normals: of(&self.normals, vertices),
            colours: of(&self.colours, vertices),
            ..Self::default()
        }
    }
}

/// Counts of a mesh's topology.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Topology {
    /// Edges of one triangle.
    pub boundary_edges: usize,
    /// Closed rows of boundary edges.
    pub holes: usize,
    /// Edges of three or more triangles, or of two that disagree about the outside.
    pub bad_edges: usize,
    /// Vertices whose triangles form more than one fan.
    pub bad_vertices: usize,
    /// Connected parts.
    pub components: usize,
}

impl Topology {
    /// Counts the topology of a mesh.
    pub fn from_mesh(mesh: &Mesh) -> Self {
        let corners = Corners::from_mesh(mesh);
        let mut found = Self::default();
        let rims = Sets::new(mesh.positions.len());
        let mut on_rim = Vec::new();
        for open in corners.open_edges() {
            if open.is_border() {
                found.boundary_edges += 1;
                rims.join(open.edge[0] as usize, open.edge[1] as usize);
                on_rim.push(open.edge[0]);
            } else {
                found.bad_edges += 1;
            }
        }
        let mut roots: Vec<usize> = on_rim.iter().map(|&v| rims.root(v as usize)).collect();
        roots.sort_unstable();
        roots.dedup();
        found.holes = roots.len();
        found.bad_vertices = corners
            .several_fans()
            .iter()
            .map(|(_, fans)| distinct(fans) - 1)
            .sum();
        let parts = components(mesh);
        found.components = parts.iter().max().map_or(0, |&last| last as usize + 1);
        found
    }

    /// Returns true if the mesh is a manifold, possibly with holes.
    pub fn is_manifold(&self) -> bool {
        self.bad_edges == 0 && self.bad_vertices == 0
    }
}

/// Returns the number of different fans.
fn distinct(fans: &[u32]) -> usize {
    let mut fans = fans.to_vec();
    fans.sort_unstable();
    fans.dedup();
    fans.len()
}

/// Splits vertices with several fans, so that the mesh is a manifold. An edge of three or more triangles becomes a
/// boundary. Returns the number of new vertices.
pub fn split_fans(mesh: &mut Mesh) -> usize {
    let corners = Corners::from_mesh(mesh);
    let split = corners.several_fans();
    if split.is_empty() {
        return 0;
    }
    let mut copies: Vec<u32> = (0..mesh.positions.len() as u32).collect();
    // The first fan in the order of triangles keeps the vertex; others get copies, in this order too.
    let mut moved: Vec<(u32, u32, u32)> = Vec::new();
    for (v, fans) in &split {
        let others = corners
            .of(*v)
            .iter()
            .zip(fans)
            .filter(|(_, fan)| **fan != fans[0]);
        moved.extend(others.map(|(&corner, &fan)| (corner, fan, *v)));
    }
    moved.sort_unstable();
    let mut place = std::collections::HashMap::new();
    for (corner, fan, v) in moved {
        let next = copies.len() as u32;
        let new = *place.entry(fan).or_insert(next);
        if new == next {
            copies.push(v);
        }
        mesh.triangles[corner as usize / 3][corner as usize % 3] = new;
    }
    let extra = copies.len() - mesh.positions.len();
    let triangles = std::mem::take(&mut mesh.triangles);
    let texture = mesh.texture.take();
    *mesh = Mesh {
        triangles,
        texture,
        ..mesh.gathered(&copies)
    };
    extra
}

/// Returns the number of the connected part of each triangle; parts are numbered by their first triangle.
pub fn components(mesh: &Mesh) -> Vec<u32> {
    let sets = Sets::new(mesh.positions.len());
    mesh.triangles.par_iter().for_each(|&[a, b, c]| {
        sets.join(a as usize, b as usize);
        sets.join(a as usize, c as usize);
    });
    let roots = mesh.triangles.par_iter();
    let mut parts: Vec<u32> = roots.map(|t| sets.root(t[0] as usize) as u32).collect();
    let mut number = vec![u32::MAX; mesh.positions.len()];
    let mut next = 0;
    for part in &mut parts {
        let number = &mut number[*part as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        *part = *number;
    }
    parts
}

/// Disjoint sets that several threads join; the root of a set is its least member.
#[derive(Debug)]
pub(crate) struct Sets(Vec<AtomicU32>);

impl Sets {
    /// Makes sets of one member each.
    pub fn new(count: usize) -> Self {
        Self(atomics((0..count as u32).collect()))
    }

    /// Returns the least member of a set.
    pub fn root(&self, mut i: usize) -> usize {
        loop {
            let above = self.0[i].load(Relaxed);
            let next = self.0[above as usize].load(Relaxed);
            if next == above {
                return above as usize;
            }
            // Shorter paths. A member above stays a member above, whatever other threads join.
            self.0[i].store(next, Relaxed);
            i = next as usize;
        }
    }

    /// Joins two sets.
    pub fn join(&self, mut a: usize, mut b: usize) {
        loop {
            (a, b) = (self.root(a), self.root(b));
            let (low, high) = (a.min(b) as u32, a.max(b) as u32);
            // Fails if another thread has joined the larger root to a set.
            let joined = self.0[high as usize].compare_exchange(high, low, Relaxed, Relaxed);
            if low == high || joined.is_ok() {
                return;
            }
        }
    }
}
