//! Renders a photo: a pixel is the mean of the light along eight rays, or of two if these already agree.

use super::cameras::RayGrid;
use super::scene::{Scene, flip};
use dapple_scene::{Camera, Photo, Progress};
use glam::{DVec2, DVec3, Mat3A, Vec3A};
use rayon::prelude::*;

/// Positions of the samples within a pixel, eighths: no two share a row or a column, so that edges in any direction are
/// smooth. Each two consecutive samples are opposite, so that any even number has its mean in the centre.
const ROOKS: [[u8; 2]; 8] = [
    [1, 5],
    [6, 2],
    [0, 3],
    [7, 4],
    [2, 0],
    [5, 7],
    [3, 6],
    [4, 1],
];

/// Two samples of a pixel agree if they differ by less than this, encoded from 0 to 1.
const AGREEMENT: f32 = 4.0 / 255.0;

/// Renders the photo of `camera`, its light times `gain`. `rays` belongs to its lens. After a request to stop, the
/// remaining rows are black.
pub(super) fn photo(
    scene: &Scene,
    camera: &Camera,
    rays: &RayGrid,
    gain: Vec3A,
    progress: &dyn Progress,
) -> Photo {
    let width = camera.width as usize;
    let eye = Eye::new(camera);
    let mut rgb = vec![0u8; width * camera.height as usize * 3];
    rgb.par_chunks_mut(width * 3)
        .enumerate()
        .filter(|_| !progress.should_stop())
        .for_each(|(row, line)| {
            for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
                let sample = |[x, y]: [u8; 2]| {
                    let inside = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5) / 8.0;
                    rays.at(column, row, inside).map_or(Vec3A::ZERO, |ray| {
                        scene.look(eye.origin, eye.direction(ray))
                    })
                };
                pixel.copy_from_slice(&encode(mean(sample) * gain));
            }
        });
    Photo::from_rgb(camera.width, camera.height, rgb)
}

/// Computes the depths of `camera`, along +z, through the pixels' centres. `rays` belongs to its lens; 0 where the lens
/// shows nothing.
pub(super) fn depths(scene: &Scene, camera: &Camera, rays: &RayGrid) -> Vec<f32> {
    let eye = Eye::new(camera);
    let (width, height) = (camera.width as usize, camera.height as usize);
    let pixels = (0..height).flat_map(|row| (0..width).map(move |column| (column, row)));
    let depth = |(column, row)| {
        rays.at(column, row, DVec2::splat(0.5)).map_or(0.0, |ray| {
            // Along a direction of length 1, which is 1 / |ray| deep.
            let hit = scene.hit(eye.origin, eye.direction(ray));
            hit.distance / ray.length() as f32
        })
    };
    pixels.map(depth).collect()
}

/// Computes the light of a pixel and its opaque fraction, means of the samples of [`ROOKS`]; of two if these already
/// agree.
pub(super) fn pixel(
    rays: &RayGrid,
    column: usize,
    row: usize,
    look: impl Fn(DVec3) -> (Vec3A, f32),
) -> (Vec3A, f32) {
    let sample = |[x, y]: [u8; 2]| {
        let inside = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5) / 8.0;
        rays.at(column, row, inside)
            .map_or((Vec3A::ZERO, 0.0), &look)
    };
    let (a, b) = (sample(ROOKS[0]), sample(ROOKS[1]));
    if a.1 == b.1 && agree(a.0, b.0) {
        return ((a.0 + b.0) / 2.0, a.1);
    }
    let others = ROOKS[2..].iter().map(|&place| sample(place));
    let sum = others.fold((a.0 + b.0, a.1 + b.1), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1)
    });
    (sum.0 / ROOKS.len() as f32, sum.1 / ROOKS.len() as f32)
}

/// Returns true if two samples of a pixel agree. Gamma 2 approximates the encoding.
fn agree(a: Vec3A, b: Vec3A) -> bool {
    let apart = (a.max(Vec3A::ZERO).sqrt() - b.max(Vec3A::ZERO).sqrt()).abs();
    apart.max_element() < AGREEMENT
}

/// Computes the mean of as many samples as needed.
fn mean(sample: impl Fn([u8; 2]) -> Vec3A) -> Vec3A {
    let (a, b) = (sample(ROOKS[0]), sample(ROOKS[1]));
    if agree(a, b) {
        return (a + b) / 2.0;
    }
    let others: Vec3A = ROOKS[2..].iter().map(|&place| sample(place)).sum();
    (a + b + others) / ROOKS.len() as f32
}

/// Pose of a camera in scene coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Eye {
    pub(super) origin: Vec3A,
    scene_from_camera: Mat3A,
}

impl Eye {
    pub(super) fn new(camera: &Camera) -> Self {
        let pose = &camera.camera_from_world;
        let axes = pose.rotation_matrix().transpose();
        let turn = |axis: DVec3| flip(axis.as_vec3a());
        Self {
            origin: flip(pose.centre().as_vec3a()),
            scene_from_camera: Mat3A::from_cols(
                turn(axes.x_axis),
                turn(axes.y_axis),
                turn(axes.z_axis),
            ),
        }
    }

    /// Returns the unit direction, scene coordinates, of a ray in camera coordinates.
    pub(super) fn direction(&self, ray: DVec3) -> Vec3A {
        (self.scene_from_camera * ray.as_vec3a()).normalize()
    }
}

/// Converts linear light to sRGB bytes (IEC 61966-2-1).
pub(super) fn encode(linear: Vec3A) -> [u8; 3] {
    linear.to_array().map(|c| {
        let c = c.clamp(0.0, 1.0);
        let encoded = if c <= 0.003_130_8 {
            12.92 * c
        } else {
            1.055 * c.powf(1.0 / 2.4) - 0.055
        };
        (encoded * 255.0).round() as u8
    })
}
