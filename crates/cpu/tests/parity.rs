//! The engine against the f64 reference: images, every gradient, the pose, on every test scene.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::scenes::{self, Random, TestScene};
use dapple_engine::{Engine, compare, reference};

/// The bar of the house: relative L2 in f32.
const TOLERANCE: f64 = 1e-4;

fn engine(scene: &TestScene) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions { threads: Some(2) }).unwrap();
    engine.upload(&scene.splats, None).unwrap();
    engine
}

fn weights(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.uniform(-1.0, 1.0) as f32).collect()
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[test]
fn images_match_the_reference() {
    let mut failures = Vec::new();
    for scene in scenes::all() {
        let expected = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
        let actual = engine(&scene)
            .render(&scene.camera, &scene.settings)
            .unwrap();
        for (what, error) in compare::compare_images(&actual, &expected) {
            println!("{:28} {what:6} {error:.2e}", scene.name);
            if error > TOLERANCE {
                failures.push(format!("{} {what}: {error:.2e}", scene.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn gradients_match_the_reference() {
    let mut failures = Vec::new();
    for scene in scenes::all() {
        let pixels = scene.camera.width as usize * scene.camera.height as usize;
        let (d_rgb, d_alpha) = (weights(1, 3 * pixels), weights(2, pixels));
        let expected = reference::gradients(
            &scene.splats,
            &scene.camera,
            &scene.settings,
            &widened(&d_rgb),
            Some(&widened(&d_alpha)),
        )
        .unwrap();
        let actual = engine(&scene)
            .gradients(&scene.camera, &scene.settings, &d_rgb, Some(&d_alpha))
            .unwrap();
        let mut errors = compare::compare_gradients(&actual, &expected);
        errors.push(("pose", compare::compare_pose(&actual, &expected)));
        for (what, error) in errors {
            println!("{:28} {what:10} {error:.2e}", scene.name);
            if error > TOLERANCE {
                failures.push(format!("{} {what}: {error:.2e}", scene.name));
            }
        }
        let absent = reference::absent(&scene.splats, &scene.camera, &scene.settings).unwrap();
        let strays = compare::stray_gradients(&actual, &absent);
        if !strays.is_empty() {
            failures.push(format!("{}: absent Gaussians {strays:?} move", scene.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
