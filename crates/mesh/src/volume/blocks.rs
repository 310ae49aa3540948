//! Blocks of voxels near surfaces.

use super::maps::DepthMap;
use dapple_scene::order::morton_order;
use glam::{IVec3, Vec3};
use rayon::prelude::*;
use std::collections::HashMap;

/// Voxels along a side of a block.
pub const SIDE: i32 = 8;

/// Voxels of a block.
pub const VOXELS: usize = 512;

/// Bytes of a block in memory, with its share of the index and of the surface.
pub const BYTES_PER_BLOCK: u64 = (VOXELS * 8 + 96) as u64;

/// Place of a block, in blocks.
pub type Key = [i32; 3];

/// Grid of voxels: the sample of voxel `i` is at `origin + i * voxel`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Position of voxel zero, world units.
    pub origin: Vec3,
    /// Distance between voxels, world units.
    pub voxel: f32,
    /// Distance from the surface up to which distances are stored, world units.
    pub truncation: f32,
    /// Least corner of the box, world units.
    pub low: Vec3,
    /// Largest corner of the box, world units.
    pub high: Vec3,
    /// Box whose surfaces a finer grid has.
    pub hole: Option<[Vec3; 2]>,
}

impl Grid {
    /// Returns the position of a voxel.
    pub fn position(&self, voxel: IVec3) -> Vec3 {
        self.origin + voxel.as_vec3() * self.voxel
    }

    /// Returns true if a place is in the hole, farther than `margin` from its sides.
    pub fn is_in_hole(&self, place: Vec3, margin: f32) -> bool {
        self.hole.is_some_and(|[low, high]| {
            place.cmpgt(low + margin).all() && place.cmplt(high - margin).all()
        })
    }

    /// Returns the block that contains a position.
    pub fn block_of(&self, position: Vec3) -> Key {
        let block = (position - self.origin) / (self.voxel * SIDE as f32);
        block.floor().as_ivec3().to_array()
    }
}

/// Blocks of a grid.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Places along a Morton curve: triangles that are near each other come near each other in the mesh.
    pub keys: Vec<Key>,
    index: HashMap<Key, u32>,
}

impl Blocks {
    /// Finds the blocks within the truncation of the surfaces in the maps. Every `stride`-th pixel of each row and
    /// column is used.
    pub fn near(maps: &[DepthMap], grid: &Grid, stride: usize) -> Self {
        let found = maps.par_iter().map(|map| of_map(map, grid, stride));
        let mut keys: Vec<Key> = Vec::new();
        for of_map in found.collect::<Vec<_>>() {
            keys.extend(of_map);
        }
        keys.par_sort_unstable();
        keys.dedup();
        Self::of_keys(&keys)
    }

    /// Makes blocks of these places, each of which is listed once.
    pub fn of_keys(keys: &[Key]) -> Self {
        let places: Vec<[f32; 3]> = keys.iter().map(|key| key.map(|v| v as f32)).collect();
        let order = morton_order(&places);
        let keys: Vec<Key> = order.iter().map(|&i| keys[i]).collect();
        let index = keys.iter().enumerate().map(|(i, &key)| (key, i as u32));
        Self {
            index: index.collect(),
            keys,
        }
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there is no block.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the index of a block.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.index.get(&key).map(|&i| i as usize)
    }

    /// Returns the indices of a block and of those around it: `step`, -1 to 1 on each axis, is at [`place_around`].
    pub fn around(&self, key: Key) -> [Option<usize>; 27] {
        std::array::from_fn(|i| {
            let step = IVec3::new(i as i32 % 3, i as i32 / 3 % 3, i as i32 / 9) - 1;
            self.find((IVec3::from(key) + step).to_array())
        })
    }
}

/// Returns the place of a step in [`Blocks::around`].
pub fn place_around(step: IVec3) -> usize {
    let [x, y, z] = (step + 1).to_array().map(|v| v as usize);
    x + 3 * y + 9 * z
}

/// Returns the blocks along the rays of a map, near its depths; sorted.
fn of_map(map: &DepthMap, grid: &Grid, stride: usize) -> Vec<Key> {
    /// Most keys before repeated ones are removed.
    const MANY: usize = 1 << 20;
    let [width, height] = map.camera.size;
    let mut keys: Vec<Key> = Vec::new();
    // Cubes of half a block around samples half a block apart cover the whole band.
    let reach = grid.voxel * SIDE as f32 * 0.25;
    let steps = (2.0 * grid.truncation / (2.0 * reach)).ceil().max(1.0) as i32;
    let mut limit = MANY;
    let pixels = (0..height)
        .step_by(stride)
        .flat_map(|y| (0..width).step_by(stride).map(move |x| y * width + x));
    for pixel in pixels {
        if map.weight(pixel) == 0.0 {
            continue;
        }
        let point = map.point(pixel);
        let is_outside = point.cmplt(grid.low).any() || point.cmpgt(grid.high).any();
        if is_outside || grid.is_in_hole(point, 2.0 * grid.truncation) {
            continue;
        }
        let direction = (point - map.camera.centre).normalize_or_zero();
        for i in 0..=steps {
            let along = grid.truncation * (2.0 * i as f32 / steps as f32 - 1.0);
            let place = point + direction * along;
            let low = grid.block_of(place - reach);
            let high = grid.block_of(place + reach);
            for z in low[2]..=high[2] {
                for y in low[1]..=high[1] {
                    keys.extend((low[0]..=high[0]).map(|x| [x, y, z]));
                }
            }
        }
        if keys.len() > limit {
            keys.sort_unstable();
            keys.dedup();
            limit = keys.len() + MANY;
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
