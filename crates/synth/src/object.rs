//! Synthetic captures of one object without its surroundings, as in the NeRF paper's synthetic set.
//!
//! 1. The object is a scene's table with the things on it. Floor and landscape give light and are not shown.
//! 2. Cameras are on the upper half of a sphere and look at the middle, through a lens of 39.6 degrees along the
//!    shorter edge. Held-out cameras have other directions.
//! 3. A photo has alpha, or an even colour behind the object ([`ObjectBackground`]). Light is averaged over the rays
//!    that meet the object, and blended over that colour in sRGB values, as trainers do.
//! 4. The folder has Blender's layout: `transforms_train.json` and `transforms_test.json` with `camera_angle_x` and
//!    OpenGL's axes, z up; `train/*.png` and `test/*.png`; no sparse points.

use super::cameras::RayGrid;
use super::folder::{self, Note, Staging, TEST, TRAIN};
use super::light::Light;
use super::photos::{self, Eye, encode};
use super::random::Random;
use super::scene::Scene;
use super::setting::Site;
use super::writing::{SynthSummary, go_on, write_png};
use super::{ObjectBackground, SynthOptions};
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Camera, Dataset, Error, NoProgress, Photo, Pose, Progress, Result, View};
use glam::{DMat3, DQuat, DVec3, Vec3A};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use std::f64::consts::{PI, TAU};
use std::path::Path;

/// Angle of view along the shorter edge, radians: that of the NeRF paper's synthetic set.
const ANGLE: f64 = 0.691_111_2;

/// Distance of the cameras from the middle, units; the table has a radius of 2.3.
const ORBIT: f64 = 7.6;

/// Height of the place that cameras look at, y up.
const AIM: f64 = -0.15;

/// Sines of the lowest and the highest camera's elevation.
const HEIGHTS: [f64; 2] = [0.05, 0.97];

/// The kind of random stream that moves cameras.
const OBJECT_STREAM: u64 = 0x6f62_6a65;

/// Number of training photos per held-out photo.
const TRAIN_PER_HELD_OUT: usize = 4;

/// Golden angle, radians: consecutive directions never repeat.
const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;

/// Photos of an object.
struct Object {
    scene: Scene,
    background: ObjectBackground,
    rays: RayGrid,
    /// Training cameras, then held-out ones. World y down, as in scenes.
    cameras: Vec<Camera>,
    /// Number of training cameras.
    train: usize,
}

impl Object {
    fn new(options: &SynthOptions, background: ObjectBackground) -> Self {
        let train = options.photos;
        let held_out = (train / TRAIN_PER_HELD_OUT).max(1);
        let edge = f64::from(options.width.min(options.height));
        let focal = 0.5 * edge / (0.5 * ANGLE).tan();
        let base = Camera::pinhole(options.width, options.height, focal, Pose::IDENTITY);
        let camera = |half: u64, i: usize, count: usize| Camera {
            camera_from_world: pose(options.seed, half, i, count),
            ..base
        };
        let trained = (0..train).map(|i| camera(0, i, train));
        let tested = (0..held_out).map(|i| camera(1, i, held_out));
        Self {
            scene: Scene::new(Site::of(options), Light::default()),
            background,
            rays: RayGrid::new(&base),
            cameras: trained.chain(tested).collect(),
            train,
        }
    }

    /// Returns the folder and the transforms file of a photo, and its name without extension.
    fn place(&self, index: usize) -> (&'static str, String) {
        let (folder, number) = match index.checked_sub(self.train) {
            None => (TRAIN.0, index),
            Some(number) => (TEST.0, number),
        };
        (folder, format!("r_{number:03}"))
    }

    fn photo(&self, index: usize, progress: &dyn Progress) -> Photo {
        let camera = &self.cameras[index];
        let width = camera.width as usize;
        let eye = Eye::new(camera);
        let mut pixels = vec![[0u8; 4]; width * camera.height as usize];
        pixels
            .par_chunks_mut(width)
            .enumerate()
            .filter(|_| !progress.should_stop())
            .for_each(|(row, line)| {
                for (column, pixel) in line.iter_mut().enumerate() {
                    let (light, opaque) = photos::pixel(&self.rays, column, row, |ray| {
                        self.scene.look_at_object(eye.origin, eye.direction(ray))
                    });
                    let [r, g, b] = encode(light / opaque.max(f32::MIN_POSITIVE));
                    *pixel = [r, g, b, (255.0 * opaque).round() as u8];
                }
            });
        let mut photo =
            Photo::from_rgb(camera.width, camera.height, flat(&pixels, self.background));
        if self.background.value().is_none() {
            photo.alpha = Some(pixels.iter().map(|p| p[3]).collect());
        }
        photo
    }

    /// Builds the transforms file of one half.
    fn transforms(&self, half: &str) -> Value {
        let width = self.cameras.first().map_or(1.0, |c| f64::from(c.width));
        let focal = self.cameras.first().map_or(1.0, |c| c.fx);
        let frames: Vec<Value> = (0..self.cameras.len())
            .map(|index| (self.place(index), &self.cameras[index]))
            .filter(|((folder, _), _)| *folder == half)
            .map(|((folder, name), camera)| {
                let pose = turned(&camera.camera_from_world);
                let axes = pose.rotation_matrix().transpose();
                let columns = [axes.x_axis, -axes.y_axis, -axes.z_axis, pose.centre()];
                let row = |of: fn(&DVec3) -> f64| columns.each_ref().map(of);
                let matrix = [
                    row(|c| c.x),
                    row(|c| c.y),
                    row(|c| c.z),
                    [0.0, 0.0, 0.0, 1.0],
                ];
                json!({"file_path": format!("./{folder}/{name}"), "transform_matrix": matrix})
            })
            .collect();
        json!({"camera_angle_x": 2.0 * (0.5 * width / focal).atan(), "frames": frames})
    }
}

/// Blends colours over the background; if there is alpha, they are unchanged.
fn flat(pixels: &[[u8; 4]], background: ObjectBackground) -> Vec<u8> {
    let over = |value: u8, alpha: u8| match background.value() {
        None => value,
        Some(behind) => {
            let part = f32::from(alpha) / 255.0;
            (part * f32::from(value) + (1.0 - part) * f32::from(behind)).round() as u8
        }
    };
    let rgb = pixels
        .iter()
        .map(|&[r, g, b, a]| [r, g, b].map(|v| over(v, a)));
    rgb.flatten().collect()
}

/// Computes the pose of camera `i` of the `count` cameras of a half.
fn pose(seed: u64, half: u64, i: usize, count: usize) -> Pose {
    let mut random = Random::new(seed, OBJECT_STREAM + half, i as u64);
    let [low, high] = HEIGHTS;
    // Each band of the half sphere has one camera, in an order that does not follow the height.
    let band = (i * step(count)) % count;
    let up = low + (high - low) * (band as f64 + random.unit()) / count as f64;
    let azimuth =
        GOLDEN_ANGLE * i as f64 + PI * half as f64 / 7.0 + random.uniform(-0.1, 0.1) * TAU;
    let out = (1.0 - up * up).sqrt();
    let (z, x) = azimuth.sin_cos();
    // World y points down.
    let eye = DVec3::new(x * out, -up, z * out) * ORBIT;
    Pose::look_at(eye, DVec3::new(0.0, -AIM, 0.0), DVec3::NEG_Y)
}

/// Returns a number near a third of `count` without a common factor.
fn step(count: usize) -> usize {
    let common = |a: usize, b: usize| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (count / 3 + 1..)
        .find(|&s| common(s, count) == 1)
        .unwrap_or(1)
}

/// Converts a pose to a world with z up, as in Blender.
fn turned(pose: &Pose) -> Pose {
    let up = DMat3::from_cols(DVec3::X, DVec3::NEG_Z, DVec3::Y);
    Pose {
        rotation: (pose.rotation * DQuat::from_mat3(&up).conjugate()).normalize(),
        translation: pose.translation,
    }
}

/// Writes the capture of an object: see [`super::generate`].
pub(super) fn generate(
    options: &SynthOptions,
    background: ObjectBackground,
    out: &Path,
    progress: &dyn Progress,
) -> Result<SynthSummary> {
    let staging = Staging::bare(out)?;
    let root = staging.root();
    for (name, _) in [TRAIN, TEST] {
        let folder = root.join(name);
        std::fs::create_dir(&folder)
            .map_err(|source| Error::io("cannot create the folder", &folder, source))?;
    }
    let object = Object::new(options, background);
    let count = object.cameras.len();
    progress.start("rendering photos", count as u64);
    let written = (0..count).into_par_iter().try_for_each(|index| {
        let photo = object.photo(index, progress);
        go_on(progress, out)?;
        let (folder, name) = object.place(index);
        write_png(&root.join(folder).join(format!("{name}.png")), &photo)?;
        progress.advance(1);
        Ok::<_, Error>(())
    });
    progress.finish();
    written?;
    for (half, file) in [TRAIN, TEST] {
        write_json(&root.join(file), &object.transforms(half))?;
    }
    write_json(&root.join(folder::NOTE), &Note::new(options))?;
    staging.finish()?;
    Ok(SynthSummary {
        folder: out.to_owned(),
        photos: count,
        points: 0,
        observations: 0,
    })
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_atomically(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

/// Renders the capture of an object in memory: see [`super::dataset`].
pub(super) fn dataset(options: &SynthOptions, background: ObjectBackground) -> Dataset {
    let object = Object::new(options, background);
    let mut views: Vec<View> = (0..object.cameras.len())
        .into_par_iter()
        .map(|index| {
            let (folder, name) = object.place(index);
            let camera = Camera {
                camera_from_world: turned(&object.cameras[index].camera_from_world),
                ..object.cameras[index]
            };
            View::new(
                format!("{folder}/{name}"),
                camera,
                object.photo(index, &NoProgress),
            )
        })
        .collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Dataset {
        views,
        ..Dataset::default()
    }
}

impl Scene {
    /// Returns the light of a ray that meets the object, and 1; zeros for floor and landscape.
    fn look_at_object(&self, origin: Vec3A, direction: Vec3A) -> (Vec3A, f32) {
        let hit = self.hit(origin, direction);
        if hit.is_surrounding() {
            return (Vec3A::ZERO, 0.0);
        }
        (self.light(origin, direction, hit), 1.0)
    }
}
