//! Depths of a render, their gradients, and steps with known depths, against the f64 reference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, last_loss};
use crate::conformance::parity::{weights, widened};
use crate::conformance::training::{moments, photo, settings, steps_repeat_themselves};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::depth::MEDIAN_TRANSMITTANCE;
use dapple_engine::{
    DepthSample, Engine, EngineExt, GradientParts, Gradients, ImageDerivative, LossTerm,
    RenderSettings, StepSettings, TrainView,
};
use glam::DVec2;
use std::sync::Arc;

/// Margin of the median, in units of ln transmittance: nearer to a half, `f32` may find another median.
const MARGIN: f64 = 1e-4;

const WEIGHT: f32 = 0.7;

/// Checks every test scene. The blended depth is within [`TOLERANCE`], the median depth is that of the
/// same Gaussian, and the image is bit-identical to a render without depths.
pub fn depths_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    for scene in scenes::all() {
        let settings = RenderSettings {
            depth: true,
            ..scene.settings
        };
        engine.upload(&scene.splats, None).unwrap();
        let plain = engine.render(&scene.camera, &scene.settings).unwrap();
        assert!(
            plain.depth.is_none(),
            "{}: depths without a request",
            scene.name
        );
        let actual = engine.render(&scene.camera, &settings).unwrap();
        assert_eq!(actual.rgb, plain.rgb, "{}: another image", scene.name);
        assert_eq!(actual.alpha, plain.alpha, "{}: another alpha", scene.name);
        let expected = reference::render(&scene.splats, &scene.camera, &settings).unwrap();
        let error = compare::compare_depths(&actual, &expected);
        let strays = wrong_medians(&scene, &actual.depth.unwrap().median, &expected);
        println!("{:28} depth  {error:.2e}, {strays} medians", scene.name);
        if error > TOLERANCE || strays > 0 {
            failures.push(format!("{}: {error:.2e}, {strays} medians", scene.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Counts pixels whose median differs from the reference's, except undecided ones.
fn wrong_medians(scene: &TestScene, actual: &[f32], expected: &reference::Image) -> usize {
    let all = reference::Gaussian::all(&scene.splats);
    let visible = reference::visible(&all, &scene.camera, &scene.settings).unwrap();
    let cap = scene.settings.max_gaussians_per_tile;
    let lists = reference::ranges(&visible, &scene.camera, cap);
    assert_eq!(actual.len(), expected.median_depth.len());
    let is_wrong = |&i: &usize| {
        let wanted = expected.median_depth[i];
        if (f64::from(actual[i]) - wanted).abs() <= 1e-5 * wanted {
            return false;
        }
        let (x, y) = (i as u32 % scene.camera.width, i as u32 / scene.camera.width);
        let pixel = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let (behind, _) = reference::contributions(&visible, lists.at(x, y), pixel);
        let margins = behind.iter().map(|c| {
            let transmittance = c.transmittance * (1.0 - c.alpha);
            (transmittance / f64::from(MEDIAN_TRANSMITTANCE)).ln().abs()
        });
        margins.fold(f64::INFINITY, f64::min) > MARGIN
    };
    (0..actual.len()).filter(is_wrong).count()
}

/// Returns scenes that are also anti-aliased: through a pinhole, through a lens, and panoramas.
pub(crate) fn antialiased() -> impl Iterator<Item = TestScene> {
    let names = [
        "random_sh3",
        "needles",
        "lens_fisheye",
        "panorama",
        "panorama_poles",
    ];
    names.into_iter().chain(scenes::SEAMS).map(|name| {
        let mut scene = scenes::named(name);
        scene.settings.antialias = true;
        scene
    })
}

/// Checks, on every test scene, gradients of colours, alpha and depth at once.
pub fn depth_gradients_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    for scene in scenes::all().into_iter().chain(antialiased()) {
        let (splats, camera, settings) = (&scene.splats, &scene.camera, &scene.settings);
        let n = camera.width as usize * camera.height as usize;
        let (rgb, alpha, depth) = (weights(1, 3 * n), weights(2, n), weights(3, n));
        let wide = [&rgb, &alpha, &depth].map(|values| widened(values));
        let expected = ImageDerivative {
            rgb: &wide[0],
            alpha: Some(&wide[1]),
            depth: Some(&wide[2]),
        };
        let expected = reference::differentiate(splats, camera, settings, &expected).unwrap();
        let derivative = ImageDerivative {
            rgb: &rgb,
            alpha: Some(&alpha),
            depth: Some(&depth),
        };
        engine.upload(splats, None).unwrap();
        let actual = engine
            .differentiate(camera, settings, &derivative, GradientParts::All)
            .unwrap();
        let mut errors = compare::compare_gradients(&actual, &expected);
        errors.push(("pose", compare::compare_pose(&actual, &expected)));
        for (what, error) in errors {
            println!("{:28} {what:10} {error:.2e}", scene.name);
            if error > TOLERANCE {
                failures.push(format!("{} {what}: {error:.2e}", scene.name));
            }
        }
        let absent = reference::absent(splats, camera, settings).unwrap();
        let strays = compare::stray_gradients(&actual, &absent);
        if !strays.is_empty() {
            failures.push(format!("{}: absent Gaussians {strays:?} move", scene.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns samples: every fourth visible pixel, at a depth that is wrong by between a hundredth and
/// a third. Within rounding of the right depth, the loss has no slope to compare.
fn samples(scene: &TestScene) -> Vec<DepthSample> {
    let image = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    let mut random = Random::new(21);
    let seen = (0..image.depth.len()).filter(|&i| i % 4 == 1 && image.alpha[i] > 0.02);
    seen.map(|i| {
        let side = if random.bits().is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        let factor = 1.0 + side * random.uniform(0.01, 0.3);
        DepthSample {
            pixel: i as u32,
            inverse_depth: (image.alpha[i] / image.depth[i] / factor) as f32,
            weight: random.uniform(0.0, 2.0) as f32 / 900.0,
        }
    })
    .collect()
}

/// Executes one step on the scene's view with these samples.
fn step(
    engine: &mut dyn Engine,
    scene: &TestScene,
    samples: &[DepthSample],
    settings: &StepSettings,
) -> f32 {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(scene)),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    engine.supervise_depth(id, samples.to_vec()).unwrap();
    engine.step(id, settings).unwrap();
    last_loss(engine)
}

fn supervised(scene: &TestScene, number: u32, depth_weight: f32) -> StepSettings {
    let settings = settings(scene, number);
    StepSettings {
        losses: settings.losses.with(LossTerm::Depth, depth_weight),
        ..settings
    }
}

/// Returns the reference's gradient of a step: of the image's loss and of the depth loss.
fn expected_gradient(scene: &TestScene, samples: &[DepthSample]) -> Gradients<f64> {
    let (splats, camera, render) = (&scene.splats, &scene.camera, &scene.settings);
    let image = reference::render(splats, camera, render).unwrap();
    let photo = photo(scene);
    let target = reference::photo_target(&photo, render.background);
    let (width, height) = (camera.width as usize, camera.height as usize);
    let ssim_weight = settings(scene, 1).losses[LossTerm::Ssim].into();
    let (_, by_rgb) = reference::loss(&image.rgb, &target, width, height, None, ssim_weight);
    let loss = reference::depth_loss(&image, samples, WEIGHT.into());
    let derivative = ImageDerivative {
        rgb: &by_rgb,
        alpha: Some(&loss.by_alpha),
        depth: Some(&loss.by_depth),
    };
    reference::differentiate(splats, camera, render, &derivative).unwrap()
}

/// Checks first moments after one step with known depths, also with absolute density statistics. A
/// step whose depth weight is zero, or whose view has no samples, is bit-identical to one without
/// depths.
pub fn depth_steps_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    for name in [
        "random_sh3",
        "off_centre",
        "crowd",
        "tile_cap",
        "deep_stack",
        "tiny_image",
        "lens_fisheye",
    ]
    .into_iter()
    .chain(scenes::SEAMS)
    {
        let scene = scenes::named(name);
        let samples = samples(&scene);
        assert!(!samples.is_empty(), "{name}: nothing to compare");
        let mut run = |samples: &[DepthSample], settings: &StepSettings| {
            engine.upload(&scene.splats, None).unwrap();
            let loss = step(engine.as_mut(), &scene, samples, settings);
            let (splats, state) = engine.download().unwrap();
            (splats, state, loss)
        };
        let with_depth = supervised(&scene, 1, WEIGHT);
        let (splats, state, loss) = run(&samples, &with_depth);
        let plain = run(&samples, &supervised(&scene, 1, 0.0));
        assert!(run(&[], &with_depth) == plain, "{name}: no samples");
        assert!(splats != plain.0, "{name}: depth changes nothing");
        assert_eq!(loss, plain.2, "{name}: the image's loss");

        let expected = expected_gradient(&scene, &samples).tensors();
        for (what, actual) in moments(&state) {
            let found = expected.iter().find(|(tensor, _)| *tensor == what).unwrap();
            let error = compare::relative_l2(&actual, &found.1);
            println!("{name:12} {what:10} {error:.2e}");
            assert!(error < TOLERANCE, "{name} {what}: {error:.2e}");
        }

        let absolute = StepSettings {
            absolute_density: true,
            ..with_depth
        };
        let (other, other_state, _) = run(&samples, &absolute);
        assert!(other == splats, "{name}: statistics change the step");
        let larger = other_state.gradient_sums.iter().zip(&state.gradient_sums);
        assert!(larger.clone().all(|(a, b)| *a >= *b * 0.999));
    }
}

/// Checks that steps with known depths and a densification round are bit-identical with an engine of
/// each of `makes`.
pub fn depth_steps_repeat_themselves(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let samples = samples(&scene);
    steps_repeat_themselves(makes, &scene, &|engine, number| {
        let settings = supervised(&scene, number, WEIGHT);
        step(engine, &scene, &samples, &settings);
    });
}
