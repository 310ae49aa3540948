//! Colours of surface points from photos.
//!
//! The score of a photo at a point is the cosine of its ray times its resolution there. The colour is the mean of the
//! photos that see the point, with weights score^2: with higher powers fewer photos count, and their exposures and
//! reflections show; with lower ones detail becomes soft. Weights are continuous along the surface, so that colours have no
//! seams where the best photo changes.

use crate::mesh::Mesh;
use crate::raster::{Clusters, Raster};
use crate::view::{PhotoSource, Pinhole, ball_around};
use crate::volume::ByLevel;
use dapple_base::{Error, ErrorKind, Progress, Result};
use dapple_scene::{Camera, Photo};
use glam::{Vec2, Vec3};
use rayon::prelude::*;
use std::sync::Arc;

/// Photos that are compared with the points at once. Each takes 8 bytes a pixel.
const AT_ONCE: usize = 16;

/// Points of one task.
const CHUNK: usize = 1 << 10;

/// Least cosine between the ray of a photo and the normal.
const LEAST_COSINE: f32 = 0.1;

/// Distance in which a photo fades out towards its border, pixels.
const FADE: f32 = 16.0;

/// Voxels behind a mesh at which a photo still shows a point.
pub const TOLERANCE: f32 = 1.5;

/// Point of a surface.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Position, world units.
    pub position: Vec3,
    /// Unit normal.
    pub normal: Vec3,
}

/// Where a camera sees a spot.
pub(crate) struct Sighting {
    /// Depth of the spot, world units.
    pub depth: f32,
    /// Place in the image.
    pub place: Vec2,
    /// Pixel of the place.
    pub pixel: usize,
    /// Unit vector from the spot to the camera.
    pub to_camera: Vec3,
    /// Cosine between this vector and the normal.
    pub cosine: f32,
    /// Depth of the nearest surface that does not hide the spot, world units.
    pub front: f32,
}

impl Spot {
    /// Returns vertices with their normals.
    pub(crate) fn of_vertices(positions: &[Vec3], normals: &[Vec3]) -> Vec<Self> {
        let places = positions.par_iter().zip(normals);
        places
            .map(|(&position, &normal)| Self { position, normal })
            .collect()
    }

    /// Returns where a camera sees the spot, if it is in the image and the cosine is at least this. `tolerance` is the
    /// distance behind a surface, world units, up to which the surface does not hide it.
    pub(crate) fn seen_by(
        &self,
        camera: &Pinhole,
        least_cosine: f32,
        tolerance: f32,
    ) -> Option<Sighting> {
        // Half of the cameras are behind the surface: this test is the cheapest.
        let to_camera = camera.centre - self.position;
        if self.normal.dot(to_camera) <= 0.0 {
            return None;
        }
        let p = camera.to_camera(self.position);
        if p.z <= 0.0 {
            return None;
        }
        let place = camera.project(p);
        let pixel = camera.pixel(place)?;
        let to_camera = to_camera.normalize_or_zero();
        let cosine = self.normal.dot(to_camera);
        if cosine < least_cosine {
            return None;
        }
        let slack = tolerance * (1.0 + 1.0 / cosine) + p.z / camera.mean_focal();
        Some(Sighting {
            depth: p.z,
            place,
            pixel,
            to_camera,
            cosine,
            front: p.z - slack,
        })
    }
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
    let clusters = Clusters::of(mesh);
    let mut sums = vec![(Vec3::ZERO, 0.0f32); spots.len()];
    progress.start("reading colours from photos", photos.count() as u64);
    for first in (0..photos.count()).step_by(AT_ONCE) {
        if progress.should_stop() {
            let what = "colouring was interrupted; no mesh is written";
            return Err(Error::new(ErrorKind::Interrupted, what));
        }
        let indices = first..photos.count().min(first + AT_ONCE);
        let sight = |index| {
            let (camera, photo) = photos.photo(index)?;
            Ok(Sight::new(&camera, photo, &clusters, tolerance))
        };
        let sights: Vec<Result<Sight<'_>>> = indices.into_par_iter().map(sight).collect();
        // The first of several errors.
        let sights: Vec<Sight<'_>> = sights.into_iter().collect::<Result<_>>()?;
        let sums = sums.par_chunks_mut(CHUNK);
        spots.par_chunks(CHUNK).zip(sums).for_each(|(spots, sums)| {
            let patch = Patch::around(spots);
            let sights = sights.iter().filter(|s| patch.may_be_seen(&s.camera));
            let sights: Vec<&Sight<'_>> = sights.collect();
            for (spot, sum) in spots.iter().zip(sums) {
                // The sums of a spot are in the order of the photos.
                for sight in &sights {
                    if let Some((score, place)) = sight.score(spot) {
                        let weight = score * score;
                        sum.0 += sampled(&sight.photo, place) * weight;
                        sum.1 += weight;
                    }
                }
            }
        });
        progress.advance(sights.len() as u64);
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

/// Ball around some spots, and cone around their normals.
pub(crate) struct Patch {
    middle: Vec3,
    radius: f32,
    normal: Vec3,
    /// Largest angle between `normal` and the normal of a spot, rad.
    spread: f32,
}

impl Patch {
    pub fn around(spots: &[Spot]) -> Self {
        let (middle, radius) = ball_around(spots.iter().map(|spot| spot.position));
        let sum: Vec3 = spots.iter().map(|spot| spot.normal).sum();
        let normal = sum.normalize_or(Vec3::Z);
        let angles = spots
            .iter()
            .map(|spot| normal.dot(spot.normal).clamp(-1.0, 1.0).acos());
        Self {
            middle,
            radius,
            normal,
            spread: angles.fold(0.0, f32::max),
        }
    }

    /// Returns false if a camera sees no spot: all are outside the image, or face away from the camera.
    pub fn may_be_seen(&self, camera: &Pinhole) -> bool {
        let to_camera = camera.centre - self.middle;
        let distance = to_camera.length();
        if distance <= self.radius {
            return true;
        }
        // The ray of a spot differs from that of the middle by at most this angle.
        let turn = (self.radius / distance).asin();
        let angle = self.normal.angle_between(to_camera);
        let faces = angle - turn - self.spread <= LEAST_COSINE.acos() + 1e-3;
        let middle = camera.to_camera(self.middle);
        faces && camera.around_ball(middle, self.radius).is_some()
    }
}

/// A photo and the depth of the mesh in it.
struct Sight<'a> {
    camera: Pinhole,
    raster: Raster,
    photo: Arc<Photo>,
    tolerance: &'a ByLevel,
}

impl<'a> Sight<'a> {
    fn new(
        camera: &Camera,
        photo: Arc<Photo>,
        clusters: &Clusters,
        tolerance: &'a ByLevel,
    ) -> Self {
        let camera = Pinhole::new(camera);
        Self {
            raster: clusters.rasterize(&camera),
            camera,
            photo,
            tolerance,
        }
    }

    /// Returns the score of the photo at a spot, and the spot's place in the photo; `None` if the photo does not show
    /// the spot.
    fn score(&self, spot: &Spot) -> Option<(f32, Vec2)> {
        let tolerance = self.tolerance.at(spot.position);
        let Sighting {
            depth,
            place,
            pixel,
            cosine,
            front,
            ..
        } = spot.seen_by(&self.camera, LEAST_COSINE, tolerance)?;
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
        for (dx, dy) in [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)] {
            let (nx, ny) = (x as isize + dx, y as isize + dy);
            if nx < 0 || ny < 0 || nx >= width as isize || ny >= height as isize {
                continue;
            }
            if self.raster.depth[ny as usize * width + nx as usize] < front {
                return None;
            }
        }
        let rim = place
            .min(Vec2::new(width as f32, height as f32) - place)
            .min_element();
        let fade = (rim / FADE).clamp(0.01, 1.0);
        // In units of the tolerance, so that the square of a score is neither too large nor too small.
        let resolution = tolerance * self.camera.mean_focal() / depth;
        Some((cosine * fade * resolution, place))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::tests::numbers;
    use dapple_scene::Pose;

    #[test]
    fn a_patch_without_view_has_no_spot_that_faces_the_camera() {
        let mut next = numbers(1);
        let mut vector = || Vec3::new(next(), next(), next());
        let mut hidden = 0;
        for round in 0..4000 {
            let size = [0.01, 0.1, 0.6][round % 3];
            let (middle, normal) = (2.0 * vector(), vector());
            let spots: Vec<Spot> = (0..6)
                .map(|_| Spot {
                    position: middle + size * vector(),
                    normal: (normal + size * vector()).normalize_or(Vec3::Z),
                })
                .collect();
            let camera = Pinhole::new(&Camera::pinhole(64, 48, 60.0, Pose::IDENTITY));
            let faces = |spot: &Spot| {
                let to_camera = (camera.centre - spot.position).normalize_or_zero();
                let place = camera.to_camera(spot.position);
                place.z > 0.0
                    && camera.pixel(camera.project(place)).is_some()
                    && spot.normal.dot(to_camera) >= LEAST_COSINE
            };
            let may = Patch::around(&spots).may_be_seen(&camera);
            assert!(may || !spots.iter().any(faces), "{spots:?}");
            hidden += usize::from(!may);
        }
        assert!(hidden > 1000, "{hidden}");
    }
}
