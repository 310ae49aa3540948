//! Charts: parts of the mesh that a parallel projection maps to the plane without overlap.
//!
//! A chart grows from a triangle over edges. A triangle joins if it faces the direction of the chart, and if its texels
//! are free. Directions are means of the normals around the first triangle.

use crate::corners::Corners;
use crate::mesh::Mesh;
use crate::volume::ByLevel;
use glam::{Vec2, Vec3};
use rayon::prelude::*;
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
fn neighbours(mesh: &Mesh) -> Vec<[Option<u32>; 3]> {
    let corners = Corners::from_mesh(mesh);
    let triangles = (0..mesh.triangles.len() as u32).into_par_iter();
    triangles.map(|t| corners.neighbours(t)).collect()
}

/// Cuts a mesh into charts of `texel` world units per texel, that of the first triangle of each chart.
pub fn charts(mesh: &Mesh, texel: &ByLevel) -> Vec<Chart> {
    let neighbours = neighbours(mesh);
    let crosses: Vec<Vec3> = (0..mesh.triangles.len()).map(|t| mesh.cross(t)).collect();
    let mut is_free = vec![true; mesh.triangles.len()];
    let mut found_by = vec![u32::MAX; mesh.triangles.len()];
    let mut charts = Vec::new();
    for seed in 0..mesh.triangles.len() {
        if !is_free[seed] {
            continue;
        }
        let direction = direction(seed, &neighbours, &crosses, &is_free, &mut found_by);
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
///
/// `found_by` is the last seed that found each triangle.
fn direction(
    seed: usize,
    neighbours: &[[Option<u32>; 3]],
    crosses: &[Vec3],
    is_free: &[bool],
    found_by: &mut [u32],
) -> Vec3 {
    let first = crosses[seed].normalize_or_zero();
    let (mut sum, mut found) = (crosses[seed], vec![seed as u32]);
    found_by[seed] = seed as u32;
    let mut next = 0;
    while next < found.len() && found.len() < AROUND {
        for other in neighbours[found[next] as usize].into_iter().flatten() {
            if !is_free[other as usize] || found_by[other as usize] == seed as u32 {
                continue;
            }
            if crosses[other as usize].dot(first) > 0.0 {
                found_by[other as usize] = seed as u32;
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
    (neighbours, crosses): (&[[Option<u32>; 3]], &[Vec3]),
    is_free: &mut [bool],
) -> Chart {
    let across = direction.any_orthonormal_vector();
    let down = direction.cross(across);
    let place = |t: usize| {
        mesh.corners(t)
            .map(|p| Vec2::new(p.dot(across), p.dot(down)) / texel)
    };
    let mut taken: HashMap<[i32; 2], u64> = HashMap::new();
    let mut squares = Vec::new();
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
        cover(&flat, &mut squares);
        let is_taken = |(square, texels): &([i32; 2], u64)| {
            taken.get(square).is_some_and(|taken| taken & texels != 0)
        };
        if squares.iter().any(is_taken) {
            continue;
        }
        for &(square, texels) in &squares {
            *taken.entry(square).or_default() |= texels;
        }
        is_free[i] = false;
        triangles.push(t);
        corners.push(flat);
        queue.extend(neighbours[i].into_iter().flatten());
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

/// Lists the squares of 8x8 texels with texels whose middle is inside a triangle, without those at its edges, and a bit for
/// each such texel.
fn cover(corners: &[Vec2; 3], squares: &mut Vec<([i32; 2], u64)>) {
    squares.clear();
    each_texel(corners, -0.02, |x, y, _| {
        let (square, bit) = ([x >> 3, y >> 3], 1 << (x & 7 | (y & 7) << 3));
        match squares.iter_mut().rev().find(|found| found.0 == square) {
            Some((_, texels)) => *texels |= bit,
            None => squares.push((square, bit)),
        }
    });
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
