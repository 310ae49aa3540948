//! Steps of a pose in the reference: rigid, downhill, and equal to Adam's.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::scenes;
use crate::{self as reference, PoseMoments, refine_pose};
use dapple_engine::{Adam, PoseRates};
use dapple_scene::{Camera, Pose};
use glam::{DQuat, DVec3};

/// From a wrong camera, steps return to the true pose of the photo.
#[test]
fn steps_lead_back_to_the_true_pose() {
    let scene = scenes::named("random_sh1");
    let truth = scene.camera.camera_from_world;
    let (splats, settings) = (&scene.splats, &scene.settings);
    let photo = reference::render(splats, &scene.camera, settings).unwrap();
    let turn = DQuat::from_scaled_axis(DVec3::new(0.01, -0.008, 0.012));
    let mut pose = Pose {
        rotation: turn * truth.rotation,
        translation: truth.translation + DVec3::new(0.02, -0.01, 0.015),
    };
    let off = |pose: &Pose| {
        let angle = pose.rotation.angle_between(truth.rotation);
        angle + pose.centre().distance(truth.centre())
    };
    let before = off(&pose);
    let mut moments = PoseMoments::default();
    let steps = 200;
    for step in 0..steps {
        let camera = Camera {
            camera_from_world: pose,
            ..scene.camera
        };
        let image = reference::render(splats, &camera, settings).unwrap();
        let pairs = image.rgb.iter().zip(&photo.rgb);
        let slope: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
        let gradient = reference::gradients(splats, &camera, settings, &slope, None).unwrap();
        let rate = 1e-2 * 0.01f32.powf(step as f32 / steps as f32);
        let rates = PoseRates {
            rotation: rate,
            translation: rate,
        };
        (pose, moments) = refine_pose(&pose, &moments, &gradient.pose, &rates, &Adam::default());
    }
    let after = off(&pose);
    assert!(after < 0.2 * before, "{before} has become {after}");
    assert_eq!(moments.visits, steps);
    assert!((pose.rotation.length() - 1.0).abs() < 1e-12);
}

/// The first step of Adam is the rate, against the sign of each derivative.
#[test]
fn the_first_step_has_the_size_of_its_rate() {
    let rates = PoseRates {
        rotation: 1e-3,
        translation: 2e-3,
    };
    let gradient = [4.0, -0.1, 3e3, -5.0, 1e-3, 7.0];
    let (none, adam) = (PoseMoments::default(), Adam::default());
    let (pose, _) = refine_pose(&Pose::IDENTITY, &none, &gradient, &rates, &adam);
    let turn = pose.rotation.to_scaled_axis();
    let expected = DVec3::new(-1e-3, 1e-3, -1e-3);
    assert!(turn.distance(expected) < 1e-9, "{turn}");
    let shift = DVec3::new(2e-3, -2e-3, -2e-3);
    assert!(
        pose.translation.distance(shift) < 1e-9,
        "{}",
        pose.translation
    );
}
