//! Images, every gradient and the pose against the f64 reference.

use super::engines::Make;
use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::{Engine, EngineExt, GradientParts, Gradients, ImageDerivative, RenderSettings};
use dapple_scene::{Camera, Pose, Splats};
use glam::DVec3;

pub(crate) fn weights(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.uniform(-1.0, 1.0) as f32).collect()
}

pub(crate) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Checks on every test scene that colours and alphas are within [`TOLERANCE`].
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

/// Checks on every test scene that each gradient tensor and the pose's are within [`TOLERANCE`],
/// and that absent Gaussians have none.
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
        let whole = engine.gradients(&scene.camera, &scene.settings, &d_rgb, None);
        let part = engine.blend_gradients(&scene.camera, &scene.settings, &d_rgb);
        if part.unwrap() != whole.unwrap().into() {
            failures.push(format!(
                "{}: gradients by opacities and sh0 alone",
                scene.name
            ));
        }
        let mut errors = compare::compare_gradients(&actual, &expected);
        errors.push(("pose", compare::compare_pose(&actual, &expected)));
        errors.push((
            "absolute2d",
            absolute_error(engine.as_mut(), &scene, &d_rgb, &actual),
        ));
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

/// Returns the relative error of absolute gradients by projected centres. The others must have the same bits as without.
fn absolute_error(
    engine: &mut dyn Engine,
    scene: &TestScene,
    d_rgb: &[f32],
    plain: &Gradients<f32>,
) -> f64 {
    let derivative = ImageDerivative {
        rgb: d_rgb,
        alpha: None,
        depth: None,
    };
    let (camera, settings) = (&scene.camera, &scene.settings);
    let mut of = |parts| {
        engine
            .differentiate(camera, settings, &derivative, parts)
            .unwrap()
    };
    let (without, mut with) = (of(GradientParts::All), of(GradientParts::AllAndAbsolute));
    let sums = std::mem::take(&mut with.absolute2d);
    assert!(with == without, "{}: gradients differ", scene.name);
    assert!(plain.absolute2d.is_empty());
    let expected =
        reference::absolute_gradients(&scene.splats, camera, settings, &widened(d_rgb)).unwrap();
    compare::relative_l2(&widened(sums.as_flattened()), expected.as_flattened())
}

/// Checks eight half-transparent Gaussians in one tile with a limit of three: five are skipped, and
/// the reported transmittance is that of the image.
pub fn the_cap_says_what_it_cut(make: Make<'_>) {
    let count = 8;
    let splats = Splats {
        means: (0..count).map(|i| [0.0, 0.0, i as f32]).collect(),
        scales: vec![[0.0; 3]; count],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; count],
        opacities: vec![-0.5; count],
        sh0: vec![[0.3; 3]; count],
        ..Splats::empty(0)
    };
    let pose = Pose::look_at(DVec3::new(0.0, 0.0, -4.0), DVec3::ZERO, DVec3::NEG_Y);
    let camera = Camera::pinhole(16, 16, 30.0, pose);
    let mut engine = make();
    engine.upload(&splats, None).unwrap();
    let mut rendered = |max_gaussians_per_tile| {
        let settings = RenderSettings {
            max_gaussians_per_tile,
            ..RenderSettings::default()
        };
        engine.render(&camera, &settings).unwrap()
    };
    let cut = rendered(3);
    let left = cut
        .alpha
        .iter()
        .map(|alpha| 1.0 - alpha)
        .fold(0.0, f32::max);
    assert_eq!(cut.counts.cut_instances, 5);
    assert!((cut.counts.lost_transmittance - left).abs() < 1e-6);
    assert!(left > 0.1 && left < 0.9, "{left}");
    let whole = rendered(0);
    assert_eq!(whole.counts.cut_instances, 0);
    assert_eq!(whole.counts.lost_transmittance, 0.0);
}
