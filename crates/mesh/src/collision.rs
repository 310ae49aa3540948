//! Closed coarse proxy of a mesh, for collisions.
//!
//! The proxy is the surface at a fixed distance from the mesh, so that it has no holes, whatever the mesh has.

use crate::judge::samples;
use crate::mesh::{Mesh, split_fans};
use crate::nearest::Nearest;
use crate::surface::{extract, simplify};
use crate::volume::{Blocks, Grid, Key, SIDE, VOXELS, Volume};
use glam::{IVec3, Vec3};
use rayon::prelude::*;

/// Voxels along the longest side of the mesh.
const VOXELS_ACROSS: f32 = 96.0;

/// Distance of the proxy from the mesh, voxels.
const DISTANCE: f32 = 1.0;

/// Voxels around the mesh with known distances.
const BAND: f32 = 3.0;

/// Points on the mesh.
const POINTS: usize = 300_000;

/// Makes a closed mesh of at most about `triangles` triangles around a mesh. `None` for a mesh without area.
pub fn collision(mesh: &Mesh, triangles: usize) -> Option<Mesh> {
    let [low, high] = mesh.bounds()?;
    let voxel = (high - low).max_element() / VOXELS_ACROSS;
    if voxel.is_nan() || voxel <= 0.0 {
        return None;
    }
    let grid = Grid {
        origin: low - voxel * BAND,
        voxel,
        truncation: voxel * BAND,
        low,
        high,
        hole: None,
    };
    let points: Vec<Vec3> = samples(mesh, POINTS).iter().map(|s| s.0).collect();
    let nearest = Nearest::new(&points);
    let reach = voxel * (BAND + 1.0);
    let mut keys: Vec<Key> = points
        .par_iter()
        .flat_map_iter(|&p| {
            let (first, last) = (grid.block_of(p - reach), grid.block_of(p + reach));
            let range = move |k: usize| first[k]..=last[k];
            range(2).flat_map(move |z| range(1).flat_map(move |y| range(0).map(move |x| [x, y, z])))
        })
        .collect();
    keys.par_sort_unstable();
    keys.dedup();
    let blocks = Blocks::of_keys(&keys);
    let distance = (0..blocks.len() * VOXELS).into_par_iter().map(|i| {
        let (key, i) = (blocks.keys[i / VOXELS], (i % VOXELS) as i32);
        let inner = IVec3::new(i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE);
        let place = grid.position(IVec3::from(key) * SIDE + inner);
        let distance = nearest
            .find(place)
            .map_or(f32::INFINITY, |(_, d)| d / voxel);
        (distance - DISTANCE).clamp(-1.0, 1.0)
    });
    let volume = Volume {
        distance: distance.collect(),
        weight: vec![1.0; blocks.len() * VOXELS],
    };
    let mut proxy = extract(&volume, &blocks, &grid, 0.5);
    split_fans(&mut proxy);
    let mut proxy = simplify(&proxy, triangles, f32::INFINITY);
    proxy.compute_normals();
    (!proxy.triangles.is_empty()).then_some(proxy)
}
