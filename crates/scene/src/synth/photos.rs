//! Renders a photo: a pixel is the mean of the light along four rays, or of two on a diagonal where
//! these agree already.

use super::cameras::{RayGrid, SUPERSAMPLING};
use super::scene::{Scene, flip};
use crate::{Camera, Photo};
use glam::{DVec3, Mat3A, Vec3A};
use rayon::prelude::*;

/// Two samples of a pixel that differ by less than this, in encoded steps of 1/255, agree.
const AGREEMENT: f32 = 3.0 / 255.0;

/// The photo that `camera` takes. `rays` belongs to its lens.
pub(super) fn photo(scene: &Scene, camera: &Camera, rays: &RayGrid) -> Photo {
    let width = camera.width as usize;
    let eye = Eye::new(camera);
    let mut rgb = vec![0u8; width * camera.height as usize * 3];
    rgb.par_chunks_mut(width * 3)
        .enumerate()
        .for_each(|(row, line)| {
            for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
                let sample = |dy: usize, dx: usize| {
                    rays.at(row * SUPERSAMPLING + dy, column * SUPERSAMPLING + dx)
                        .map_or(Vec3A::ZERO, |point| {
                            scene.look(eye.origin, eye.direction(point))
                        })
                };
                let (a, b) = (sample(0, 0), sample(1, 1));
                // Gamma 2 stands for the encoding.
                let agree = (a.max(Vec3A::ZERO).sqrt() - b.max(Vec3A::ZERO).sqrt())
                    .abs()
                    .max_element();
                let light = if agree < AGREEMENT {
                    (a + b) * 0.5
                } else {
                    (a + b + sample(0, 1) + sample(1, 0)) * 0.25
                };
                pixel.copy_from_slice(&encode(light));
            }
        });
    Photo::from_rgb(camera.width, camera.height, rgb)
}

/// A camera's pose in scene coordinates.
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

    /// Unit direction of the ray through an ideal image point.
    pub(super) fn direction(&self, (x, y): (f64, f64)) -> Vec3A {
        (self.scene_from_camera * Vec3A::new(x as f32, y as f32, 1.0)).normalize()
    }
}

/// Linear light to sRGB bytes (IEC 61966-2-1).
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
