//! Fusion of depth maps into truncated signed distances.

use super::blocks::{Blocks, Grid, SIDE, VOXELS};
use super::maps::DepthMap;
use dapple_base::{Error, Progress, Result};
use glam::{IVec3, Vec3};
use rayon::prelude::*;

/// Weight of an observation of free space in front of the truncation, relative to one of the surface.
const FREE_WEIGHT: f32 = 0.1;

/// Power by which sharp weights fall towards the truncation.
const SHARPNESS: i32 = 3;

/// Least part of the weight far from a surface.
const LEAST_NEAR: f32 = 0.05;

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
        let ball = (middle, half * 3.0f32.sqrt());
        let mut sums = [Sums::default(); VOXELS];
        for map in maps {
            if map.may_show(ball, grid.truncation * REACH) {
                observe(map, grid, first, scale, &mut sums);
            }
        }
        for ((distance, weight), sums) in distance.iter_mut().zip(weight).zip(&sums) {
            (*distance, *weight) = sums.fused();
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
fn observe(map: &DepthMap, grid: &Grid, first: IVec3, scale: f32, sums: &mut [Sums; VOXELS]) {
    let camera = &map.camera;
    let start = camera.to_camera(grid.position(first));
    let [ex, ey, ez] = [0, 1, 2].map(|k| camera.rotation.col(k) * grid.voxel);
    for z in 0..SIDE {
        for y in 0..SIDE {
            let row = start + ey * y as f32 + ez * z as f32;
            for x in 0..SIDE {
                let place = row + ex * x as f32;
                let i = (x + SIDE * (y + SIDE * z)) as usize;
                match observed(map, grid, place, scale) {
                    Some(Observed::Free(w)) => sums[i].free += w,
                    Some(Observed::Surface(value, w)) => sums[i].add(value, w),
                    None => {}
                }
            }
        }
    }
}

/// Sums of the observations of a voxel.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Sum of weights of surfaces, and of signed distances times weights.
    all: [f32; 2],
    /// The sums with weights that fall with the distance.
    sharp: [f32; 2],
    /// Weights of free space.
    free: f32,
}

impl Sums {
    /// Adds a signed distance over the truncation.
    ///
    /// Near an edge, views observe the planes of both faces. The sharp weight falls with the distance, so that the nearer
    /// plane prevails. It falls on both sides alike: a fall on one side moves noisy surfaces to that side.
    fn add(&mut self, distance: f32, weight: f32) {
        let near = 1.0 - distance.abs();
        let behind = if distance < 0.0 { near } else { 1.0 };
        for (sums, w) in [
            (&mut self.all, weight * behind.max(LEAST_NEAR)),
            (
                &mut self.sharp,
                weight * near.powi(SHARPNESS).max(LEAST_NEAR),
            ),
        ] {
            sums[0] += w;
            sums[1] += distance * w;
        }
    }

    /// Returns the signed distance and the weight.
    ///
    /// All observations decide about the sign. The distance is the sharp mean, or the mean of the surfaces if the sharp
    /// mean has another sign. Free space is a part of the mean only if it decides about the sign: views that pass an edge
    /// would move the surface away from them.
    fn fused(&self) -> (f32, f32) {
        let weight = self.all[0] + self.free;
        if weight == 0.0 {
            return (0.0, 0.0);
        }
        let with_free = (self.all[1] + self.free) / weight;
        let means = [self.sharp, self.all].map(|[weight, sum]| sum / weight);
        // The means without a surface are NaN.
        let has_sign = |mean: &f32| !mean.is_nan() && (*mean < 0.0) == (with_free < 0.0);
        (
            means.into_iter().find(has_sign).unwrap_or(with_free),
            weight,
        )
    }
}

/// Observation of a voxel, with its weight.
enum Observed {
    /// No surface near the voxel.
    Free(f32),
    /// Signed distance over the truncation.
    Surface(f32, f32),
}

/// Returns the signed distance over the truncation and the weight that a map observes at a place, camera coordinates.
fn observed(map: &DepthMap, grid: &Grid, place: Vec3, scale: f32) -> Option<Observed> {
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
        return Some(Observed::Free(FREE_WEIGHT * near(place.z).min(1.0)));
    }
    let w = map.weight(pixel);
    if w == 0.0 || depth <= 0.0 {
        return None;
    }
    // Distance to the plane of the pixel.
    let slant = map.cosine(pixel) * (place / place.z).length();
    // The depth between the pixels is within a truncation of that of the pixel.
    if (depth + truncation - place.z) * slant < -truncation {
        return None;
    }
    let depth = map.depth_at(at, pixel, truncation);
    let signed = (depth - place.z) * slant / truncation;
    if signed < -1.0 {
        return None;
    }
    let ahead = if signed > 1.0 { FREE_WEIGHT } else { 1.0 };
    Some(Observed::Surface(signed.min(1.0), w * near(depth) * ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_plane_prevails_and_free_space_moves_no_surface() {
        let mut sums = Sums::default();
        sums.add(-0.1, 1.0);
        sums.add(-0.7, 1.0);
        let (alone, weight) = sums.fused();
        assert!((-0.15..-0.1).contains(&alone), "{alone}");
        sums.free = 0.2;
        let (distance, with_free) = sums.fused();
        assert_eq!(distance, alone);
        assert_eq!(with_free, weight + 0.2);
        // Enough free space turns the voxel.
        sums.free = 1.0;
        let (distance, _) = sums.fused();
        assert!(distance > 0.0, "{distance}");
    }

    #[test]
    fn all_observations_decide_about_the_sign() {
        let mut sums = Sums::default();
        sums.add(-0.05, 1.0);
        sums.add(0.8, 1.0);
        let (distance, _) = sums.fused();
        assert!(distance > 0.0, "{distance}");
        assert_eq!(Sums::default().fused(), (0.0, 0.0));
    }
}
