//! Charts: parts of the mesh that a parallel projection maps to the plane without overlap.
//!
//! A chart grows from a triangle over edges. A triangle joins if it faces the direction of the chart, and if its texels
//! are free. Directions are means of the normals around the first triangle.

use crate::mesh::{Edges, Mesh};
use crate::volume::ByLevel;
use glam::{Vec2, Vec3};
use std::collections::{HashMap, VecDeque};

/// Least cosine between a triangle and the direction of its chart.
const LEAST_COSINE: f32 = 0.45;

/// Number of triangles around the first triangle whose mean normal is the direction.
const AROUND: usize = 200;

/// Part of the mesh in the plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Triangles.
    pub triangles: Vec<u32>,
    /// Places of the corners of each triangle, texels from the least corner of the chart.
    pub corners: Vec<[Vec2; 3]>,
    /// Width and height, texels.
    pub size: Vec2,
}

/// Returns the neighbours of each triangle.
fn neighbours(mesh: &Mesh) -> Vec<[u32; 3]> {
    let mut found = vec![[u32::MAX; 3]; mesh.triangles.len()];
    let mut put = |t: u32, other: u32| {
        if let Some(place) = found[t as usize]
            .iter_mut()
            .find(|place| **place == u32::MAX)
        {
            *place = other;
        }
    };
    for (_, uses) in Edges::from_mesh(mesh).groups() {
        if let [a, b] = uses {
            put(a.triangle, b.triangle);
            put(b.triangle, a.triangle);
        }
    }
    found
}

/// Cuts a mesh into charts of `texel` world units per texel, that of the first triangle of each chart.
pub fn charts(mesh: &Mesh, texel: &ByLevel) -> Vec<Chart> {
    let neighbours = neighbours(mesh);
    let crosses: Vec<Vec3> = (0..mesh.triangles.len()).map(|t| mesh.cross(t)).collect();
    let mut is_free = vec![true; mesh.triangles.len()];
    let mut charts = Vec::new();
    for seed in 0..mesh.triangles.len() {
        if !is_free[seed] {
            continue;
        }
        let direction = direction(seed, &neighbours, &crosses, &is_free);
        let chart = grow(
            mesh,
            seed,
            (direction, texel.at(mesh.corners(seed)[0])),
            (&neighbours, &crosses),
            &mut is_free,
        );
        charts.push(chart);
    }
    charts
}

/// Returns the mean normal of the free triangles around a triangle.
fn direction(seed: usize, neighbours: &[[u32; 3]], crosses: &[Vec3], is_free: &[bool]) -> Vec3 {
    let first = crosses[seed].normalize_or_zero();
    let (mut sum, mut found) = (crosses[seed], vec![seed as u32]);
    let mut next = 0;
    while next < found.len() && found.len() < AROUND {
        for &other in &neighbours[found[next] as usize] {
            if other == u32::MAX || !is_free[other as usize] || found.contains(&other) {
                continue;
            }
            if crosses[other as usize].dot(first) > 0.0 {
                sum += crosses[other as usize];
                found.push(other);
            }
        }
        next += 1;
    }
    let mean = sum.normalize_or(Vec3::Z);
    // The first triangle is in its own chart, whatever surrounds it.
    if mean.dot(first) > LEAST_COSINE || first == Vec3::ZERO {
        mean
    } else {
        first
    }
}

/// Grows a chart from a triangle.
fn grow(
    mesh: &Mesh,
    seed: usize,
    (direction, texel): (Vec3, f32),
    (neighbours, crosses): (&[[u32; 3]], &[Vec3]),
    is_free: &mut [bool],
) -> Chart {
    let across = direction.any_orthonormal_vector();
    let down = direction.cross(across);
    let place = |t: usize| {
        mesh.corners(t)
            .map(|p| Vec2::new(p.dot(across), p.dot(down)) / texel)
    };
    let mut taken: HashMap<[i32; 2], u32> = HashMap::new();
    let (mut triangles, mut corners) = (Vec::new(), Vec::new());
    let mut queue = VecDeque::from([seed as u32]);
    while let Some(t) = queue.pop_front() {
        let i = t as usize;
        if !is_free[i] {
            continue;
        }
        let is_first = triangles.is_empty();
        let faces = crosses[i].dot(direction) >= LEAST_COSINE * crosses[i].length();
        if !is_first && !faces {
            continue;
        }
        let flat = place(i);
        let texels = covered(&flat);
        if texels.iter().any(|texel| taken.contains_key(texel)) {
            continue;
        }
        taken.extend(texels.into_iter().map(|texel| (texel, t)));
        is_free[i] = false;
        triangles.push(t);
        corners.push(flat);
        queue.extend(
            neighbours[i]
                .iter()
                .copied()
                .filter(|&other| other != u32::MAX),
        );
    }
    let all = corners.as_flattened().iter();
    let low = all.clone().fold(Vec2::INFINITY, |low, p| low.min(*p));
    let high = all.fold(Vec2::NEG_INFINITY, |high, p| high.max(*p));
    Chart {
        triangles,
        size: high - low,
        corners: corners.iter().map(|t| t.map(|p| p - low)).collect(),
    }
}

/// Returns the texels whose middle is inside a triangle, without those at its edges.
fn covered(corners: &[Vec2; 3]) -> Vec<[i32; 2]> {
    let mut found = Vec::new();
    each_texel(corners, -0.02, |x, y, _| found.push([x, y]));
    found
}

/// Calls `visit` with each texel whose middle is in a triangle enlarged by `margin` of its heights, and with the
/// middle's barycentric coordinates.
pub fn each_texel(corners: &[Vec2; 3], margin: f32, mut visit: impl FnMut(i32, i32, Vec3)) {
    let [a, b, c] = *corners;
    let area = (b - a).perp_dot(c - a);
    if area == 0.0 || !area.is_finite() {
        return;
    }
    let grow = margin.max(0.0) * (b - a).abs().max((c - a).abs()).max_element();
    let low = (a.min(b).min(c) - grow - 0.5).ceil();
    let high = (a.max(b).max(c) + grow - 0.5).floor();
    for y in low.y as i32..=high.y as i32 {
        for x in low.x as i32..=high.x as i32 {
            let p = Vec2::new(x as f32 + 0.5, y as f32 + 0.5);
            let u = (c - b).perp_dot(p - b) / area;
            let v = (a - c).perp_dot(p - c) / area;
            let w = 1.0 - u - v;
            if u >= -margin && v >= -margin && w >= -margin {
                visit(x, y, Vec3::new(u, v, w));
            }
        }
    }
}
