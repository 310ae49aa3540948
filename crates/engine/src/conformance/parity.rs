//! Images, every gradient and the pose against the f64 reference.

use super::Make;
use crate::compare::{self, TOLERANCE};
use crate::reference;
use crate::scenes::{self, Random};

fn weights(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.uniform(-1.0, 1.0) as f32).collect()
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// On every test scene, colours and alphas are within [`TOLERANCE`].
pub fn images_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    for scene in scenes::all() {
        let expected = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
        engine.upload(&scene.splats, None).unwrap();
        let actual = engine.render(&scene.camera, &scene.settings).unwrap();
        for (what, error) in compare::compare_images(&actual, &expected) {
            println!("{:28} {what:6} {error:.2e}", scene.name);
            if error > TOLERANCE {
                failures.push(format!("{} {what}: {error:.2e}", scene.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// On every test scene, each gradient tensor and the pose's are within [`TOLERANCE`], and absent
/// Gaussians have none at all.
pub fn gradients_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
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
        engine.upload(&scene.splats, None).unwrap();
        let actual = engine
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
