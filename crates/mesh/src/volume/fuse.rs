//! Fusion of depth maps into truncated signed distances.

use super::blocks::{Blocks, Grid, SIDE, VOXELS};
use super::maps::DepthMap;
use dapple_base::{Error, Progress, Result};
use glam::{IVec3, Vec3};
use rayon::prelude::*;

/// Weight of an observation of free space in front of the truncation, relative to one of the surface.
const FREE_WEIGHT: f32 = 0.1;

/// Most truncations along a ray behind a depth at which the pixel still observes a surface.
const REACH: f32 = 8.0;

/// Signed distances and weights of all blocks.
#[derive(Debug, Default)]
pub struct Volume {
    /// Signed distance over the truncation, -1 (inside) to 1 (outside), `[blocks, 512]`.
    pub distance: Vec<f32>,
    /// Sum of the weights; 0 for a voxel that no view observes, `[blocks, 512]`.
    pub weight: Vec<f32>,
}

/// Fuses the maps into the blocks. The sums of a voxel are in the order of the maps.
///
/// # Errors
/// A request to stop.
pub fn fuse(
    maps: &[DepthMap],
    blocks: &Blocks,
    grid: &Grid,
    scale: f32,
    progress: &dyn Progress,
) -> Result<Volume> {
    let mut volume = Volume {
        distance: vec![0.0; blocks.len() * VOXELS],
        weight: vec![0.0; blocks.len() * VOXELS],
    };
    progress.start("fusing depths", blocks.len() as u64);
    let distances = volume.distance.par_chunks_exact_mut(VOXELS);
    let weights = volume.weight.par_chunks_exact_mut(VOXELS);
    let targets = distances.zip(weights).zip(&blocks.keys);
    targets.for_each(|((distance, weight), &key)| {
        if progress.should_stop() {
            return;
        }
        let first = IVec3::from(key) * SIDE;
        let half = grid.voxel * (SIDE - 1) as f32 / 2.0;
        let middle = grid.position(first) + half;
        let radius = half * 3.0f32.sqrt();
        for map in maps {
            let centre = map.camera.to_camera(middle);
            let is_seen = map
                .farthest_behind(centre, radius)
                .is_some_and(|farthest| farthest > centre.z - radius - grid.truncation * REACH);
            if is_seen {
                observe(map, grid, first, scale, distance, weight);
            }
        }
        for (distance, &weight) in distance.iter_mut().zip(&*weight) {
            if weight > 0.0 {
                *distance /= weight;
            }
        }
        progress.advance(1);
    });
    progress.finish();
    if progress.should_stop() {
        return Err(Error::new(
            dapple_base::ErrorKind::Interrupted,
            "the fusion was interrupted; no mesh is written",
        ));
    }
    Ok(volume)
}

/// Adds the observations of one map to a block.
fn observe(
    map: &DepthMap,
    grid: &Grid,
    first: IVec3,
    scale: f32,
    distance: &mut [f32],
    weight: &mut [f32],
) {
    let camera = &map.camera;
    let start = camera.to_camera(grid.position(first));
    let [ex, ey, ez] = [0, 1, 2].map(|k| camera.rotation.col(k) * grid.voxel);
    for z in 0..SIDE {
        for y in 0..SIDE {
            let row = start + ey * y as f32 + ez * z as f32;
            for x in 0..SIDE {
                let place = row + ex * x as f32;
                let i = (x + SIDE * (y + SIDE * z)) as usize;
                if let Some((value, w)) = observed(map, grid, place, scale) {
                    distance[i] += value * w;
                    weight[i] += w;
                }
            }
        }
    }
}

/// Returns the signed distance over the truncation and the weight that a map observes at a place, camera coordinates.
fn observed(map: &DepthMap, grid: &Grid, place: Vec3, scale: f32) -> Option<(f32, f32)> {
    if place.z <= 0.0 {
        return None;
    }
    let at = map.camera.project(place);
    let pixel = map.camera.pixel(at)?;
    let depth = map.depth[pixel];
    let truncation = grid.truncation;
    // Nearer surfaces have smaller pixels, and their depths are more precise.
    let near = |z: f32| (scale / z).powi(2).clamp(0.05, 4.0);
    // An unknown pixel has depth 0.
    if depth - place.z > 4.0 * truncation {
        return Some((1.0, FREE_WEIGHT * near(place.z).min(1.0)));
    }
    let w = map.weight(pixel);
    if w == 0.0 || depth <= 0.0 {
        return None;
    }
    let depth = map.depth_at(at, pixel, truncation);
    // Distance to the plane of the pixel.
    let slant = map.cosine(pixel) * (place / place.z).length();
    let signed = (depth - place.z) * slant / truncation;
    if signed < -1.0 {
        return None;
    }
    let behind = if signed < 0.0 { 1.0 + signed } else { 1.0 };
    let ahead = if signed > 1.0 { FREE_WEIGHT } else { 1.0 };
    Some((signed.min(1.0), w * near(depth) * behind.max(0.05) * ahead))
}
