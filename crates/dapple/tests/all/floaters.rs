//! Floaters that the photos contradict, among the Gaussians that made the photos.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dapple::contract::{Engine, EngineExt, RenderSettings};
use dapple::cpu::{CpuEngine, CpuOptions};
use dapple::glam::DVec3;
use dapple::scene::edit::order::append;
use dapple::scene::{Camera, NoProgress, Photo, Pose, Splats, View};
use dapple::train::floaters;

/// Numbers in 0..1 that look random.
fn value(i: usize, k: usize) -> f32 {
    let x = ((i * 12 + k) as f32 * 12.9898).sin() * 43_758.547;
    x - x.floor()
}

/// Gaussians about these places.
fn about(places: Vec<[f32; 3]>, size: f32, seed: usize) -> Splats {
    let n = places.len();
    Splats {
        scales: (0..n)
            .map(|i| [0, 1, 2].map(|k| (size * (0.5 + value(seed + i, k))).ln()))
            .collect(),
        quats: (0..n)
            .map(|i| [1.0, value(seed + i, 3), value(seed + i, 4), 0.0])
            .collect(),
        opacities: (0..n).map(|i| 0.5 + 3.0 * value(seed + i, 5)).collect(),
        sh0: (0..n)
            .map(|i| [6, 7, 8].map(|k| 3.0 * (value(seed + i, k) - 0.5)))
            .collect(),
        means: places,
        sh_rest: Vec::new(),
        sh_degree: 0,
    }
}

/// A ball with a wall far behind, seen from all around, and what floats between.
#[test]
fn planted_floaters_are_found_and_the_scene_stays() {
    let mut engine = CpuEngine::new(CpuOptions::default()).unwrap();
    let on_sphere = |i: usize, n: usize, radius: f32| {
        let z = 1.0 - (2 * i + 1) as f32 / n as f32;
        let (sin, cos) = (i as f32 * 2.399_963).sin_cos();
        let flat = (1.0 - z * z).sqrt();
        [radius * flat * cos, radius * z, radius * flat * sin]
    };
    let mut scene = about((0..900).map(|i| on_sphere(i, 900, 1.0)).collect(), 0.1, 0);
    // Background: few Gaussians, large and far apart.
    let wall = about((0..60).map(|i| on_sphere(i, 60, 9.0)).collect(), 1.5, 1000);
    append(&mut scene, wall);
    let settings = RenderSettings::default();
    engine.upload(&scene, None).unwrap();
    let views: Vec<View> = (0..16)
        .map(|i| {
            let (sin, cos) = (f64::from(i) * 0.41).sin_cos();
            let eye = DVec3::new(4.0 * cos, f64::from(i % 3) - 1.0, 4.0 * sin);
            let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::NEG_Y);
            let camera = Camera::pinhole(96, 72, 80.0, pose);
            let shown = engine.render_bytes(&camera, &settings).unwrap();
            let rgb = shown.rgba.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]);
            View::new(
                format!("{i}"),
                camera,
                Photo::from_rgb(96, 72, rgb.collect()),
            )
        })
        .collect();
    let mut both = scene.clone();
    let between = |i: usize| {
        let eye = views[i % 16].camera.camera_from_world.centre();
        let share = f64::from(0.35 + 0.25 * value(5000 + i, 9));
        let metadata = [10, 11].map(|k| f64::from(value(5000 + i, k)) - 0.5);
        let place = eye * share + DVec3::new(metadata[0], metadata[1], metadata[0]) * 0.8;
        place.to_array().map(|v| v as f32)
    };
    append(&mut both, about((0..40).map(between).collect(), 0.06, 3000));
    let found = floaters(&mut engine, &both, &views, &settings, &NoProgress).unwrap();
    let count = |found: &[bool]| found.iter().filter(|is| **is).count();
    let (kept, planted) = found.split_at(scene.len());
    assert!(count(planted) >= 38, "{} of 40", count(planted));
    assert!(count(kept) <= 5, "{} of {}", count(kept), kept.len());
    let found = floaters(&mut engine, &scene, &views, &settings, &NoProgress).unwrap();
    assert_eq!(count(&found), 0);
}
