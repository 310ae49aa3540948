//! Surface of the signed distances: dual surface nets, a manifold.
//!
//! 1. Each cell of eight voxels with both signs has one vertex for each row of edges ([`super::cells`]), at the place of
//!    [`super::place`].
//! 2. Each pair of neighbouring voxels of different sign has a quad between the vertices of the four cells around it.
//!
//! A cell with an unobserved voxel has no vertex. The mesh ends there.

use super::cells::{CASES, NO_FLIP, NONE};
use super::place::{mean_of_zeros, vertex};
use super::window::{Window, corner};
use crate::mesh::Mesh;
use crate::volume::{Blocks, Grid, Key, SIDE, VOXELS, Volume, place_around};
use glam::{IVec3, Vec3};
use rayon::prelude::*;

/// Cells along a side of a block with its border: one on each side.
const CELLS: usize = SIDE as usize + 2;

/// Cells of a block with vertices.
#[derive(Debug, Default)]
struct Part {
    positions: Vec<Vec3>,
    /// First vertex of each cell in the block plus one, 0 without a vertex; empty without vertices.
    first: Vec<u16>,
    /// Case and flip of each cell.
    cases: Vec<(u8, u8)>,
}

/// Extracts the mesh where the weight of a voxel is at least `least_weight`.
pub fn extract(volume: &Volume, blocks: &Blocks, grid: &Grid, least_weight: f32) -> Mesh {
    let window = |key: Key| Window::around(volume, blocks, key, least_weight);
    let parts: Vec<Part> = blocks
        .keys
        .par_iter()
        .map(|&key| window(key).map(|window| part_of(&window, key, grid)))
        .map(Option::unwrap_or_default)
        .collect();
    let mut starts = Vec::with_capacity(parts.len());
    let mut total = 0u32;
    for part in &parts {
        starts.push(total);
        total += part.positions.len() as u32;
    }
    let triangles: Vec<Vec<[u32; 3]>> = (0..parts.len())
        .into_par_iter()
        .map(|block| triangles_of(volume, blocks, block, least_weight, (&parts, &starts)))
        .collect();
    Mesh {
        positions: parts
            .iter()
            .flat_map(|part| part.positions.iter().copied())
            .collect(),
        triangles: triangles.concat(),
        ..Mesh::default()
    }
}

/// Returns the vertices of the cells of a block.
fn part_of(window: &Window, key: Key, grid: &Grid) -> Part {
    let index = |cell: IVec3| {
        let [x, y, z] = (cell + 1).to_array().map(|v| v as usize);
        x + CELLS * (y + CELLS * z)
    };
    let cells = (0..CELLS * CELLS * CELLS).map(|i| {
        let place = [i % CELLS, i / CELLS % CELLS, i / CELLS / CELLS];
        window.case(IVec3::from(place.map(|v| v as i32)) - 1)
    });
    let cases: Vec<Option<u8>> = cells.collect();
    let mut part = Part::default();
    let mut cell_cases = vec![(0, NO_FLIP as u8); VOXELS];
    let mut first = vec![0; VOXELS];
    for i in 0..VOXELS as i32 {
        let cell = IVec3::new(i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE);
        let Some(case) = cases[index(cell)].filter(|&case| case != 0 && case != u8::MAX) else {
            continue;
        };
        let across = |face: usize| {
            let mut other = cell;
            other[face / 2] += if face.is_multiple_of(2) { -1 } else { 1 };
            cases[index(other)]
        };
        let flip = CASES.flip(case, across);
        first[i as usize] = part.positions.len() as u16 + 1;
        cell_cases[i as usize] = (case, flip as u8);
        let corners = window.corners(cell);
        let rows = CASES.rows(case, flip);
        let voxel = IVec3::from(key) * SIDE + cell;
        for row in 0..rows.count {
            let is_of_row = |edge| rows.of_edge[edge] == row;
            let place = match rows.count {
                1 => vertex(window, cell, &corners),
                _ => mean_of_zeros(&corners, is_of_row),
            };
            part.positions
                .push(grid.position(voxel) + place * grid.voxel);
        }
    }
    if !part.positions.is_empty() {
        part.first = first;
        part.cases = cell_cases;
    }
    part
}

/// Returns the triangles of the edges that begin in a block.
fn triangles_of(
    volume: &Volume,
    blocks: &Blocks,
    block: usize,
    least_weight: f32,
    (parts, starts): (&[Part], &[u32]),
) -> Vec<[u32; 3]> {
    let mut triangles = Vec::new();
    let near = Near(blocks.around(blocks.keys[block]));
    let value = |voxel: IVec3| {
        let (block, i) = near.find(voxel)?;
        let i = block * VOXELS + i;
        (volume.weight[i] >= least_weight).then(|| volume.distance[i])
    };
    // The cells around the edges of a block are in this block and in blocks below it.
    let is_empty = |block: Option<usize>| block.is_none_or(|b| parts[b].first.is_empty());
    if near.below().all(is_empty) {
        return triangles;
    }
    for i in 0..VOXELS as i32 {
        let voxel = IVec3::new(i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE);
        let here = block * VOXELS + i as usize;
        if volume.weight[here] < least_weight {
            continue;
        }
        let inside = volume.distance[here] < 0.0;
        for axis in 0..3 {
            let mut next = voxel;
            next[axis] += 1;
            if value(next).is_none_or(|v| (v < 0.0) == inside) {
                continue;
            }
            let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
            // Counterclockwise around the axis. The edge has place 1 in a cell below it.
            let around = [[0, 0], [1, 0], [1, 1], [0, 1]].map(|[on_b, on_c]: [i32; 2]| {
                let mut cell = voxel;
                cell[b] -= on_b;
                cell[c] -= on_c;
                let edge = 4 * axis + (on_b | on_c << 1) as usize;
                vertex_of(&near, cell, edge, (parts, starts))
            });
            let [Some(p), Some(q), Some(r), Some(s)] = around else {
                continue;
            };
            let mut quad = [p, q, r, s];
            if !inside {
                quad.reverse();
            }
            let at = |i: usize| position(quad[i], (parts, starts));
            let is_shorter = at(0).distance_squared(at(2)) <= at(1).distance_squared(at(3));
            let start = usize::from(!is_shorter);
            let corner = |k: usize| quad[(start + k) % 4].1;
            triangles.push([corner(0), corner(1), corner(2)]);
            triangles.push([corner(0), corner(2), corner(3)]);
        }
    }
    triangles
}

/// A block and those around it.
struct Near([Option<usize>; 27]);

impl Near {
    /// Returns the block and those below it.
    fn below(&self) -> impl Iterator<Item = Option<usize>> {
        (0..8).map(|i| self.0[place_around(-corner(i))])
    }

    /// Returns the block of a voxel, and its index there. Voxel zero is the first of the middle block.
    fn find(&self, voxel: IVec3) -> Option<(usize, usize)> {
        let block = voxel.div_euclid(IVec3::splat(SIDE));
        let inner = voxel - block * SIDE;
        let i = inner.x + SIDE * (inner.y + SIDE * inner.z);
        Some((self.0[place_around(block)]?, i as usize))
    }
}

/// Returns the block and the index of the vertex of a cell to which an edge belongs.
fn vertex_of(
    near: &Near,
    cell: IVec3,
    edge: usize,
    (parts, starts): (&[Part], &[u32]),
) -> Option<(usize, u32)> {
    let (block, i) = near.find(cell)?;
    let part = &parts[block];
    let first = part.first.get(i).copied().filter(|&first| first > 0)?;
    let (case, flip) = part.cases[i];
    let row = CASES.rows(case, usize::from(flip)).of_edge[edge];
    (row != NONE).then(|| (block, starts[block] + u32::from(first - 1) + u32::from(row)))
}

fn position((block, index): (usize, u32), (parts, starts): (&[Part], &[u32])) -> Vec3 {
    parts[block].positions[(index - starts[block]) as usize]
}
