//! Colours of surface points from photos.
//!
//! The score of a photo at a point is the cosine of its ray times its resolution there. The colour is the mean of the
//! photos that see the point, with weights (score / best score)^4. Weights are continuous along the surface, so that
//! colours have no seams where the best photo changes.

use crate::mesh::Mesh;
use crate::raster::{Raster, rasterize};
use crate::view::{PhotoSource, Pinhole};
use crate::volume::ByLevel;
use dapple_base::{Error, ErrorKind, Progress, Result};
use dapple_scene::Photo;
use glam::{Vec2, Vec3};
use rayon::prelude::*;

/// Points of one task.
const CHUNK: usize = 1 << 12;

/// Least cosine between the ray of a photo and the normal.
const LEAST_COSINE: f32 = 0.1;

/// Distance in which a photo fades out towards its border, pixels.
const FADE: f32 = 16.0;

/// Point of a surface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Position, world units.
    pub position: Vec3,
    /// Unit normal.
    pub normal: Vec3,
}

/// Returns the sRGB colours of the spots, 0 to 255, and whether a photo sees them. `tolerance` is the distance behind
/// the mesh, world units, up to which a spot counts as seen.
///
/// # Errors
/// A photo that cannot be read; a request to stop.
pub fn paint(
    spots: &[Spot],
    mesh: &Mesh,
    photos: &dyn PhotoSource,
    tolerance: &ByLevel,
    progress: &dyn Progress,
) -> Result<(Vec<Vec3>, Vec<bool>)> {
    let mut best = vec![0.0f32; spots.len()];
    let mut sums = vec![(Vec3::ZERO, 0.0f32); spots.len()];
    progress.start("reading colours from photos", 2 * photos.count() as u64);
    for pass in 0..2 {
        for index in 0..photos.count() {
            if progress.should_stop() {
                let what = "colouring was interrupted; no mesh is written";
                return Err(Error::new(ErrorKind::Interrupted, what));
            }
            let (camera, photo) = photos.photo(index)?;
            let camera = Pinhole::new(&camera);
            let sight = Sight {
                raster: rasterize(mesh, &camera),
                photo: &photo,
                camera,
                tolerance,
            };
            let chunks = spots.par_chunks(CHUNK);
            if pass == 0 {
                let best = best.par_chunks_mut(CHUNK);
                chunks.zip(best).for_each(|(spots, best)| {
                    for (spot, best) in spots.iter().zip(best) {
                        *best = best.max(sight.score(spot).map_or(0.0, |(score, _)| score));
                    }
                });
            } else {
                let sums = sums.par_chunks_mut(CHUNK).zip(best.par_chunks(CHUNK));
                chunks.zip(sums).for_each(|(spots, (sums, best))| {
                    for (spot, (sum, best)) in spots.iter().zip(sums.iter_mut().zip(best)) {
                        if let Some((score, place)) = sight.score(spot).filter(|&(s, _)| s > 0.0) {
                            let weight = (score / best).powi(4);
                            sum.0 += sampled(&photo, place) * weight;
                            sum.1 += weight;
                        }
                    }
                });
            }
            progress.advance(1);
        }
    }
    progress.finish();
    let colour = |&(sum, weight): &(Vec3, f32)| {
        if weight > 0.0 {
            sum / weight
        } else {
            Vec3::ZERO
        }
    };
    Ok((
        sums.iter().map(colour).collect(),
        sums.iter().map(|s| s.1 > 0.0).collect(),
    ))
}

/// A photo and the depth of the mesh in it.
struct Sight<'a> {
    camera: Pinhole,
    raster: Raster,
    photo: &'a Photo,
    tolerance: &'a ByLevel,
}

impl Sight<'_> {
    /// Returns the score of the photo at a spot, and the spot's place in the photo; `None` if the photo does not show
    /// the spot.
    fn score(&self, spot: &Spot) -> Option<(f32, Vec2)> {
        let p = self.camera.to_camera(spot.position);
        if p.z <= 0.0 {
            return None;
        }
        let place = self.camera.project(p);
        let pixel = self.camera.pixel(place)?;
        let to_camera = (self.camera.centre - spot.position).normalize_or_zero();
        let cosine = spot.normal.dot(to_camera);
        if cosine < LEAST_COSINE {
            return None;
        }
        if self
            .photo
            .mask
            .as_ref()
            .is_some_and(|mask| mask[pixel] == 0)
        {
            return None;
        }
        let [width, height] = self.camera.size;
        let (x, y) = (pixel % width, pixel / width);
        // A surface in front of any pixel around the place may hide the spot.
        let slack = self.tolerance.at(spot.position) * (1.0 + 1.0 / cosine)
            + p.z / self.camera.mean_focal();
        for (dx, dy) in [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)] {
            let (nx, ny) = (x as isize + dx, y as isize + dy);
            if nx < 0 || ny < 0 || nx >= width as isize || ny >= height as isize {
                continue;
            }
            if self.raster.depth[ny as usize * width + nx as usize] < p.z - slack {
                return None;
            }
        }
        let rim = place
            .min(Vec2::new(width as f32, height as f32) - place)
            .min_element();
        let fade = (rim / FADE).clamp(0.01, 1.0);
        Some((cosine * fade * self.camera.mean_focal() / p.z, place))
    }
}

/// Returns the colour of a photo between its pixels.
pub fn sampled(photo: &Photo, place: Vec2) -> Vec3 {
    let (width, height) = (photo.width as usize, photo.height as usize);
    let corner = (place - 0.5).max(Vec2::ZERO);
    let (x, y) = (
        (corner.x as usize).min(width - 1),
        (corner.y as usize).min(height - 1),
    );
    let (u, v) = (
        (corner.x - x as f32).min(1.0),
        (corner.y - y as f32).min(1.0),
    );
    let at = |x: usize, y: usize| {
        let i = 3 * (y.min(height - 1) * width + x.min(width - 1));
        Vec3::new(
            f32::from(photo.rgb[i]),
            f32::from(photo.rgb[i + 1]),
            f32::from(photo.rgb[i + 2]),
        )
    };
    let upper = at(x, y).lerp(at(x + 1, y), u);
    upper.lerp(at(x, y + 1).lerp(at(x + 1, y + 1), u), v)
}

/// Converts colours of 0 to 255 to bytes.
pub fn to_bytes(colour: Vec3) -> [u8; 3] {
    colour
        .clamp(Vec3::ZERO, Vec3::splat(255.0))
        .round()
        .to_array()
        .map(|v| v as u8)
}
