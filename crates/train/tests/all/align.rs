//! Alignment of held-out photos: poses fitted to fixed splats.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::Engine;
use dapple_reference as reference;
use dapple_reference::scenes::{self, TestScene};
use dapple_scene::{Photo, Pose, View};
use dapple_train::evaluate::align;
use glam::{DQuat, DVec3};

/// A view of the scene with a third of it painted over and masked.
fn view(scene: &TestScene, pose: Pose) -> View {
    let image = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    let bytes = image.rgb.iter().map(|v| (v * 255.0).round() as u8);
    let (width, height) = (scene.camera.width, scene.camera.height);
    let mut photo = Photo::from_rgb(width, height, bytes.collect());
    let shown = |i: usize| i % width as usize > width as usize / 3;
    let pixels = photo.rgb.chunks_exact_mut(3).enumerate();
    for (_, pixel) in pixels.filter(|(i, _)| !shown(*i)) {
        pixel.fill(255);
    }
    let pixels = width as usize * height as usize;
    photo.mask = Some(
        (0..pixels)
            .map(|i| if shown(i) { 255 } else { 0 })
            .collect(),
    );
    let mut camera = scene.camera;
    camera.camera_from_world = pose;
    View::new("held out".to_owned(), camera, photo)
}

fn engine(scene: &TestScene) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions { threads: Some(2) }).unwrap();
    engine.upload(&scene.splats, None).unwrap();
    engine
}

/// Returns the mean squared error of the visible pixels.
fn error(engine: &mut CpuEngine, scene: &TestScene, view: &View) -> f64 {
    let rendered = engine.render(&view.camera, &scene.settings).unwrap();
    let photo = view.photo.read().unwrap();
    let mask = photo.mask.as_ref().unwrap();
    let pairs = rendered.rgb.iter().zip(&photo.rgb).enumerate();
    let shown = pairs.filter(|(i, _)| mask[i / 3] > 0);
    let errors = shown.map(|(_, (a, b))| (f64::from(*a) - f64::from(*b) / 255.0).powi(2));
    errors.sum::<f64>() / photo.rgb.len() as f64
}

#[test]
fn a_pose_comes_back_to_where_the_photo_was_taken() {
    let scene = scenes::named("random_sh1");
    let truth = scene.camera.camera_from_world;
    let given = Pose {
        rotation: DQuat::from_scaled_axis(DVec3::new(0.01, -0.008, 0.012)) * truth.rotation,
        translation: truth.translation + DVec3::new(0.02, -0.01, 0.015),
    };
    let mut engine = engine(&scene);
    let given = view(&scene, given);
    let aligned = align(&mut engine, &given, &scene.settings, 1.0).unwrap();
    let before = error(&mut engine, &scene, &given);
    let after = error(&mut engine, &scene, &aligned);
    assert!(after < 0.4 * before, "{before} has become {after}");
}

/// With steps as long as the scene no pose is better: the given pose is returned.
#[test]
fn no_pose_is_taken_that_shows_the_photo_worse() {
    let scene = scenes::named("random_sh1");
    let truth = scene.camera.camera_from_world;
    let aligned = align(
        &mut engine(&scene),
        &view(&scene, truth),
        &scene.settings,
        1e4,
    );
    assert_eq!(aligned.unwrap().camera.camera_from_world, truth);
}
