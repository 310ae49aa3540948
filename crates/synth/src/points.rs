//! Sparse points of a synthetic capture, distributed like those of structure from motion.
//!
//! 1. A ray through a random place of a random photo meets a surface: that is a point.
//! 2. A photo sees the point if the point is in its frame and not hidden, and observes it with probability [`FOUND`]. A
//!    point needs two photos, like a triangulated one.
//! 3. The observations are exact projections. The position has Gaussian noise. The colour is the mean over the photos
//!    that observe the point.

use super::SynthOptions;
use super::cameras::{RayGrid, project};
use super::photos::{Eye, encode};
use super::random::Random;
use super::scene::{Scene, flip};
use dapple_scene::Camera;
use glam::{DVec3, Vec3A};
use rayon::prelude::*;

/// The kind of random stream that places points.
const POINT_STREAM: u64 = 2;

/// Probability that a photo that sees a point also observes it.
const FOUND: f64 = 0.6;

/// Number of places tried for one point: with few photos most places are seen only once.
const ATTEMPTS: usize = 40;

/// A point of the sparse cloud and its observations.
#[derive(Debug, Clone)]
pub(super) struct SparsePoint {
    /// Position with noise, world units.
    pub(super) position: DVec3,
    /// Colour, sRGB.
    pub(super) rgb: [u8; 3],
    /// Mean distance between observations and projections of `position`, pixels.
    pub(super) error: f64,
    /// Photo and position in it, pixels; sorted by photo.
    pub(super) track: Vec<(usize, [f64; 2])>,
}

/// Finds the points, at most `options.points`.
pub(super) fn find(
    scene: &Scene,
    cameras: &[Camera],
    rays: &RayGrid,
    options: &SynthOptions,
) -> Vec<SparsePoint> {
    let Some(first) = cameras.first() else {
        return Vec::new();
    };
    let reach = first.lens.max_radius();
    (0..options.points)
        .into_par_iter()
        .filter_map(|index| {
            let mut random = Random::new(options.seed, POINT_STREAM, index as u64);
            let mut attempts = 0..ATTEMPTS;
            attempts.find_map(|_| {
                let camera = &cameras[random.index(cameras.len())];
                let eye = Eye::new(camera);
                let direction = eye.direction(rays.random(&mut random)?);
                let hit = scene.hit(eye.origin, direction);
                let place = flip(eye.origin + direction * hit.distance);
                let noise = options.point_noise;
                observe(scene, cameras, reach, place, noise, &mut random)
            })
        })
        .collect()
}

/// Projects a place into every photo; `None` unless enough photos observe it.
fn observe(
    scene: &Scene,
    cameras: &[Camera],
    reach: f64,
    place: Vec3A,
    noise: f64,
    random: &mut Random,
) -> Option<SparsePoint> {
    let truth = DVec3::from(place.to_array().map(f64::from));
    let mut track = Vec::new();
    let mut colour = Vec3A::ZERO;
    for (index, camera) in cameras.iter().enumerate() {
        let found = random.unit() < FOUND || cameras.len() == 1;
        let Some(pixel) = project(camera, reach, truth).filter(|_| found) else {
            continue;
        };
        let eye = camera.camera_from_world.centre();
        let origin = flip(eye.as_vec3a());
        let direction = flip((truth - eye).normalize().as_vec3a());
        let hit = scene.hit(origin, direction);
        // Nearer than the point: another surface hides it.
        let distance = truth.distance(eye) as f32;
        if hit.distance < distance - 2e-3 {
            continue;
        }
        track.push((index, pixel));
        colour += scene.light(origin, direction, hit);
    }
    if track.len() < cameras.len().min(2) {
        return None;
    }
    let shift = DVec3::new(random.normal(), random.normal(), random.normal()) * noise;
    let position = truth + shift;
    let errors = track.iter().map(|&(index, seen)| {
        project(&cameras[index], reach, position)
            .map_or(0.0, |[x, y]| (x - seen[0]).hypot(y - seen[1]))
    });
    let error = errors.sum::<f64>() / track.len() as f64;
    let rgb = encode(colour / track.len() as f32);
    Some(SparsePoint {
        position,
        rgb,
        error,
        track,
    })
}
