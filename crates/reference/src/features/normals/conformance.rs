//! Steps with normal consistency against the f64 reference.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::Make;
use crate::conformance::training::{moments, photo, settings, step_with, steps_repeat_themselves};
use crate::scenes::{self, TestScene};
use dapple_engine::{EngineExt, Gradients, LossTerm, StepSettings};

/// Least distance of decisions from their thresholds.
const MARGIN: f64 = 1e-5;

/// Weight of the loss: its gradient is as large as that of the image.
const WEIGHT: f32 = 2.0;

fn weighted(scene: &TestScene, number: u32, weight: f32) -> StepSettings {
    let settings = settings(scene, number);
    StepSettings {
        losses: settings.losses.with(LossTerm::Normals, weight),
        ..settings
    }
}

/// Returns the reference's gradients of a step: of the loss of the image, and of the normals. `None` for a scene of few
/// pixels with a normal, or in which an engine may decide otherwise.
fn expected_gradients(scene: &TestScene) -> Option<[Gradients<f64>; 2]> {
    let (splats, camera, render) = (&scene.splats, &scene.camera, &scene.settings);
    let image = reference::render(splats, camera, render).unwrap();
    let target = reference::photo_target(&photo(scene), render.background);
    let (width, height) = (camera.width as usize, camera.height as usize);
    let ssim_weight = settings(scene, 1).losses[LossTerm::Ssim].into();
    let (_, by_rgb) = reference::loss(&image.rgb, &target, width, height, None, ssim_weight);
    let of_image = reference::gradients(splats, camera, render, &by_rgb, None).unwrap();
    let all = reference::Gaussian::all(splats);
    let stride = splats.sh_rest_stride();
    let found = reference::normal_consistency(&all, stride, camera, render, WEIGHT.into()).unwrap();
    (found.counted > 30 && found.margin > MARGIN).then_some([of_image, found.gradients])
}

/// Checks first moments after one step in the test scenes, and that the reported loss and the density statistics are
/// those of the image alone.
pub fn normal_steps_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let mut compared = 0;
    for scene in scenes::all() {
        let name = scene.name;
        let Some(expected) = expected_gradients(&scene) else {
            continue;
        };
        compared += 1;
        let mut run = |settings: &StepSettings| {
            engine.upload(&scene.splats, None).unwrap();
            let loss = step_with(engine.as_mut(), &scene, &photo(&scene), settings);
            let (splats, state) = engine.download().unwrap();
            (splats, state, loss)
        };
        let (splats, state, loss) = run(&weighted(&scene, 1, WEIGHT));
        let plain = run(&weighted(&scene, 1, 0.0));
        assert!(splats != plain.0, "{name}: normals change nothing");
        assert_eq!(loss, plain.2, "{name}: the image's loss");
        assert_eq!(
            state.gradient_sums, plain.1.gradient_sums,
            "{name}: density statistics"
        );

        let [of_image, of_normals] = expected.map(|g| g.tensors());
        for (what, actual) in moments(&state) {
            let named = |all: &[(&'static str, Vec<f64>)]| -> Vec<f64> {
                all.iter()
                    .find(|(tensor, _)| *tensor == what)
                    .unwrap()
                    .1
                    .clone()
            };
            let (image, normals) = (named(&of_image), named(&of_normals));
            let expected: Vec<f64> = image.iter().zip(&normals).map(|(a, b)| a + b).collect();
            let error = compare::relative_l2(&actual, &expected);
            println!("{name:14} {what:10} {error:.2e}");
            assert!(error < TOLERANCE, "{name} {what}: {error:.2e}");
        }
    }
    assert!(compared > 25, "{compared} scenes");
}

/// Checks that steps and a densification round are bit-identical with an engine of each of `makes`.
pub fn normal_steps_repeat_themselves(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    steps_repeat_themselves(makes, &scene, &|engine, number| {
        let settings = weighted(&scene, number, WEIGHT);
        step_with(engine, &scene, &photo(&scene), &settings);
    });
}
