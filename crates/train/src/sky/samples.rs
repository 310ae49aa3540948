//! Depths of the sky at pixels of the photos.

use super::Sky;
use crate::random::{Purpose, below, generator};
use dapple_engine::DepthSample;
use dapple_scene::{Camera, Rays};
use glam::{DVec2, DVec3};
use std::collections::BTreeMap;

/// Weight of the mean opacity between a camera and the sky, over the pixels of a photo, in the loss.
pub(crate) const WEIGHT: f64 = 0.5;

/// Returns the samples of training photo `photo` in a camera of any size, with weights whose sum is the part of the photo
/// that shows the sky. Each pixel of the reduced photo is one sample, at a random pixel of those that it covers.
pub(crate) fn samples(sky: &Sky, photo: usize, camera: &Camera) -> Vec<DepthSample> {
    let Some(mask) = &sky.photos[photo] else {
        return Vec::new();
    };
    let [width, height] = mask.size;
    let (rays, pose) = (Rays::new(camera), camera.camera_from_world);
    let centre = pose.transform(sky.centre);
    let mut random = generator(0, Purpose::Sky, photo as u64);
    let mut inside = |cell: usize, cells: usize, full: u32| {
        let (first, end) = (
            cell * full as usize / cells,
            (cell + 1) * full as usize / cells,
        );
        first + below((end - first).max(1), &mut random)
    };
    let mut found = BTreeMap::new();
    for cell in mask.pixels() {
        let x = inside(cell % width, width, camera.width);
        let y = inside(cell / width, height, camera.height);
        let ray = rays.ray(DVec2::new(x as f64 + 0.5, y as f64 + 0.5));
        if let Some(inverse_depth) = ray.and_then(|ray| inverse_depth(ray, centre, sky.radius)) {
            found.insert(y as u32 * camera.width + x as u32, inverse_depth);
        }
    }
    let weight = 1.0 / mask.is_sky.len() as f64;
    let sample = |(pixel, inverse_depth)| DepthSample {
        pixel,
        inverse_depth,
        weight: weight as f32,
    };
    found.into_iter().map(sample).collect()
}

/// Returns one over the depth at which a ray of depth 1 from the origin meets a sphere around it.
fn inverse_depth(ray: DVec3, centre: DVec3, radius: f64) -> Option<f32> {
    // |s ray - centre| = radius.
    let (a, b) = (ray.length_squared(), ray.dot(centre));
    let c = centre.length_squared() - radius * radius;
    let depth = (b + (b * b - a * c).max(0.0).sqrt()) / a;
    (depth > 0.0 && depth.is_finite()).then_some((1.0 / depth) as f32)
}
