//! Depth-normal consistency: gradients against central finite differences, and the discs that it turns.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use dapple_reference::finite_differences::{Recipe, Scene, assert_agrees_without};

use dapple_engine::RenderSettings;
use dapple_reference::{self as reference, Gaussian};
use dapple_scene::{Camera, Pose};
use glam::{DQuat, DVec3};

fn loss(scene: &Scene, targets: &[DVec3]) -> reference::NormalConsistency {
    let stride = (scene.gaussians[0].sh.len() - 1) * 3;
    let (camera, settings) = (&scene.camera, &scene.settings);
    reference::normal_consistency(&scene.gaussians, stride, camera, settings, targets).unwrap()
}

#[test]
fn every_parameter_and_the_pose_through_normals() {
    let plain = Recipe::PLAIN;
    for recipe in [
        plain,
        Recipe {
            off_centre: true,
            ..plain
        },
        Recipe {
            antialias: true,
            ..plain
        },
    ] {
        let scene = recipe.draw();
        let (camera, settings) = (&scene.camera, &scene.settings);
        let targets = reference::surface_normals(&scene.gaussians, camera, settings).unwrap();
        assert!(targets.iter().any(|n| *n != DVec3::ZERO));
        let gradients = loss(&scene, &targets).gradients;
        let scalar = |scene: &Scene| loss(scene, &targets).value;
        assert_agrees_without(&scene, &gradients, &["sh0", "sh_rest"], scalar);
    }
}

#[test]
fn a_disc_in_the_surface_has_no_loss() {
    let turn = DQuat::from_rotation_x(0.3);
    let disc = Gaussian {
        mean: DVec3::Z * 4.0,
        scale: [1.0f64, 1.0, 1e-3].map(f64::ln),
        quat: [turn.w, turn.x, turn.y, turn.z],
        opacity: 6.0,
        shown: 1.0,
        sh: vec![DVec3::ZERO],
    };
    let camera = Camera::pinhole(24, 24, 60.0, Pose::IDENTITY);
    let settings = RenderSettings::default();
    let at = |disc: &Gaussian, targets: &[DVec3]| {
        let discs = std::slice::from_ref(disc);
        reference::normal_consistency(discs, 0, &camera, &settings, targets).unwrap()
    };
    let discs = std::slice::from_ref(&disc);
    let targets = reference::surface_normals(discs, &camera, &settings).unwrap();
    let fitting = at(&disc, &targets).value;
    assert!((0.0..0.01).contains(&fitting), "{fitting}");
    // Against the normals of another plane, a step against the gradient turns the disc towards it.
    let other = DQuat::from_rotation_x(0.5) * DVec3::NEG_Z;
    let targets = vec![other; 24 * 24];
    let before = at(&disc, &targets);
    let step = |k: usize| disc.quat[k] - 0.05 * before.gradients.quats[0][k];
    let turned = Gaussian {
        quat: std::array::from_fn(step),
        ..disc
    };
    let after = at(&turned, &targets).value;
    assert!(after < before.value, "{after}, before {}", before.value);
}
