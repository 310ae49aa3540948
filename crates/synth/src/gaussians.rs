//! Random splats with the statistics of a trained scene, for benchmarks of the stages.
//!
//! 1. Means are on the surfaces of the synthetic scene, at the hits of rays through random places of cameras all
//!    around: dense where photos look, sparse far away, a part of them out of sight of any one camera.
//! 2. Scales are log-normal about the size of a pixel's footprint at that distance, and flat along the normal. They
//!    shrink with the number of Gaussians, so that the Gaussians always cover the photo about equally often.
//! 3. Opacities have two modes, nearly opaque and nearly transparent, as after training.
//!
//! Seen from [`bench_camera`] at 516 x 344, 165 000 Gaussians touch about 575 000 tiles of 16 x 16 pixels where their
//! alpha exceeds 1/255; a test checks these numbers.

use super::cameras;
use super::light::Light;
use super::photos::Eye;
use super::random::Random;
use super::scene::{Scene, flip};
use super::setting::Site;
use super::{LensKind, SynthOptions};
use dapple_scene::{Camera, Pose, SH_C0, Splats, sh_coefficient_count};
use glam::{DVec3, Mat3A, Quat, Vec3A};
use rayon::prelude::*;

/// The kind of random stream that places Gaussians.
const SPLAT_STREAM: u64 = 3;

/// Number of cameras from which the surfaces are sampled.
const CAMERAS: usize = 48;

/// Number of Gaussians for which [`FOOTPRINT`] holds.
const REFERENCE_COUNT: f64 = 165_000.0;

/// Median standard deviation of the two long axes at [`REFERENCE_COUNT`], radians seen from the
/// camera that sampled the surface. Chosen for the number of tiles above.
const FOOTPRINT: f64 = 0.0089;

/// Spread of the logarithm of the long axes, and of the short one.
const LONG_SPREAD: f64 = 0.65;
const SHORT_SPREAD: f64 = 0.8;
/// Median ratio of the short axis to the long ones.
const FLATNESS: f64 = 0.2;

/// Standard deviation of the harmonics' coefficients at degree 1; halved with every degree.
const SH_SPREAD: f64 = 0.08;

const SH_DEGREE: u8 = 3;

/// One Gaussian before it is split into arrays.
struct Gaussian {
    mean: [f32; 3],
    scale: [f32; 3],
    quat: [f32; 4],
    opacity: f32,
    sh0: [f32; 3],
    sh_rest: [f32; 45],
}

/// Generates `count` random Gaussians of degree 3, for [`bench_camera`]; equal for equal seeds on any number of
/// threads. They resemble a coarse painting of the synthetic scene.
pub fn splats(count: usize, seed: u64) -> Splats {
    let options = SynthOptions {
        photos: CAMERAS,
        width: 3,
        height: 2,
        seed,
        ..SynthOptions::default()
    };
    let scene = Scene::new(Site::of(&options), Light::default());
    let cameras = cameras::cameras(&options, LensKind::Pinhole);
    let crowd = (REFERENCE_COUNT / count.max(1) as f64).sqrt();
    let gaussians: Vec<Gaussian> = (0..count)
        .into_par_iter()
        .map(|index| {
            gaussian(
                &scene,
                &cameras,
                crowd,
                Random::new(seed, SPLAT_STREAM, index as u64),
            )
        })
        .collect();
    Splats {
        means: gaussians.iter().map(|g| g.mean).collect(),
        scales: gaussians.iter().map(|g| g.scale).collect(),
        quats: gaussians.iter().map(|g| g.quat).collect(),
        opacities: gaussians.iter().map(|g| g.opacity).collect(),
        sh0: gaussians.iter().map(|g| g.sh0).collect(),
        sh_rest: gaussians.iter().flat_map(|g| g.sh_rest).collect(),
        sh_degree: SH_DEGREE,
    }
}

/// Returns the camera for benchmarks with [`splats`]: one of an orbit, 61 degrees wide.
pub fn bench_camera(width: u32, height: u32) -> Camera {
    let options = SynthOptions {
        width,
        height,
        ..SynthOptions::default()
    };
    let eye = DVec3::new(2.6, -2.3, 2.5);
    Camera {
        camera_from_world: Pose::look_at(eye, DVec3::new(0.0, -0.25, 0.0), DVec3::NEG_Y),
        ..cameras::intrinsics(&options, LensKind::Pinhole)
    }
}

fn gaussian(scene: &Scene, cameras: &[Camera], crowd: f64, mut random: Random) -> Gaussian {
    let camera = &cameras[random.index(cameras.len())];
    let eye = Eye::new(camera);
    let place = |pixels: u32, random: &mut Random| random.unit() * f64::from(pixels);
    let direction = eye.direction(DVec3::new(
        (place(camera.width, &mut random) - camera.cx) / camera.fx,
        (place(camera.height, &mut random) - camera.cy) / camera.fy,
        1.0,
    ));
    let hit = scene.hit(eye.origin, direction);
    let p = eye.origin + direction * hit.distance;
    let footprint = FOOTPRINT * crowd * f64::from(hit.distance);
    let long = |random: &mut Random| footprint * (LONG_SPREAD * random.normal()).exp();
    let scale = [
        long(&mut random),
        long(&mut random),
        footprint * FLATNESS * (SHORT_SPREAD * random.normal()).exp(),
    ];
    // Half are nearly opaque, half nearly transparent.
    let opacity = if random.unit() < 0.5 {
        2.0 + 1.5 * random.normal()
    } else {
        -2.2 + 1.0 * random.normal()
    };
    let light = scene
        .light(eye.origin, direction, hit)
        .clamp(Vec3A::ZERO, Vec3A::ONE);
    let mut sh_rest = [0.0; 45];
    for (k, rgb) in (1..sh_coefficient_count(SH_DEGREE)).zip(sh_rest.chunks_exact_mut(3)) {
        let degree = k.isqrt() as i32;
        let spread = SH_SPREAD * 0.5f64.powi(degree - 1);
        // Mostly grey: highlights have the colour of the light.
        let common = random.normal();
        for value in rgb {
            *value = (spread * (0.8 * common + 0.6 * random.normal())) as f32;
        }
    }
    Gaussian {
        mean: flip(p).to_array(),
        scale: scale.map(|s| s.ln() as f32),
        quat: frame(
            flip(scene.normal(p, hit)),
            random.uniform(0.0, std::f64::consts::TAU),
        ),
        opacity: opacity as f32,
        sh0: light.to_array().map(|c| (c.sqrt() - 0.5) / SH_C0),
        sh_rest,
    }
}

/// Builds a rotation `[w, x, y, z]` that maps z to `normal`, rotated by `angle` about it.
fn frame(normal: Vec3A, angle: f64) -> [f32; 4] {
    let (x, y) = normal.any_orthonormal_pair();
    let turn = Mat3A::from_rotation_z(angle as f32);
    let q = Quat::from_mat3a(&(Mat3A::from_cols(x, y, normal) * turn));
    [q.w, q.x, q.y, q.z]
}
