//! Steps that learn the photometric model, against the reference, and bit-identical results of repeated runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, last_report};
use crate::conformance::parity::widened;
use crate::conformance::training::{learnt_models_repeat, masked_photo, photo, settings};
use crate::scenes::{self, Random, TestScene};
use crate::{Gaussian, PhotometricImage};
use dapple_engine::features::photometric::{CAMERA, CAMERA_SHARE, ROW};
use dapple_engine::features::photometric::{Photometric, PhotometricSettings};
use dapple_engine::{
    Adam, Engine, EngineExt, Gradients, LossTerm, OptimizerState, PosedCamera, Report,
    StepFeatures, StepSettings, TrainView, ViewId,
};
use dapple_scene::{Camera, Photo};
use std::sync::Arc;

const LEARNT: PhotometricSettings = PhotometricSettings {
    rate: 2e-3,
    prior: 0.3,
};

/// Draws models of three views: the first and the last have one camera, the second another.
fn drawn(scene: &TestScene) -> Photometric {
    let cameras = cameras(scene).map(|camera| PosedCamera::new(&camera).unwrap());
    let mut models = Photometric::default();
    models.extend_to(&cameras);
    assert_eq!(models.cameras, [0, 1, 0]);
    let mut random = Random::new(23);
    for row in models.numbers.as_chunks_mut::<ROW>().0 {
        for i in (0..3).chain(CAMERA..ROW - 1) {
            row[i] = random.uniform(-0.3, 0.3) as f32;
        }
    }
    models
}

/// Returns the cameras of three views, of which the middle one has another focal length.
fn cameras(scene: &TestScene) -> [Camera; 3] {
    let other = Camera {
        fx: scene.camera.fx * 1.1,
        ..scene.camera
    };
    [scene.camera, other, scene.camera]
}

fn views(scene: &TestScene, photo: &Photo) -> Vec<TrainView> {
    let view = |camera| TrainView {
        camera,
        photo: Arc::new(photo.clone()),
    };
    cameras(scene).map(view).to_vec()
}

fn with_model(step: StepSettings) -> StepSettings {
    StepSettings {
        features: StepFeatures {
            photometric: Some(LEARNT),
            ..step.features
        },
        ..step
    }
}

/// Returns loss, gradients by splats and by the model's row, of a step on the last view.
fn expected(
    scene: &TestScene,
    photo: &Photo,
    step: &StepSettings,
    row: &[f64],
) -> (f64, Gradients<f64>, Vec<f64>) {
    let (camera, render) = (&scene.camera, &step.render);
    let size = [camera.width as usize, camera.height as usize];
    let gaussians = Gaussian::all(&scene.splats);
    let image = reference::render_gaussians(&gaussians, camera, render).unwrap();
    let image = PhotometricImage {
        rgb: &image.rgb,
        size,
        principal: [camera.cx, camera.cy],
    };
    let target = reference::photo_target(photo, render.background);
    let mask = reference::photo_mask(photo);
    let ssim = step.losses[LossTerm::Ssim].into();
    let corrected = image.corrected(row);
    let (loss, by_corrected) =
        reference::loss(&corrected, &target, size[0], size[1], mask.as_deref(), ssim);
    let (by_rgb, mut by_row) = image.backward(row, &by_corrected);
    let prior = reference::photometric_prior(row, LEARNT.prior.into()).1;
    for (sum, part) in by_row.iter_mut().zip(prior) {
        *sum += part;
    }
    let gradients = reference::gradients(&scene.splats, camera, render, &by_rgb, None).unwrap();
    (loss, gradients, by_row)
}

/// Executes a step from `models` on the last view; returns its loss and the state after it.
fn step(
    engine: &mut dyn Engine,
    scene: &TestScene,
    models: &Photometric,
    step: &StepSettings,
) -> (f32, OptimizerState) {
    engine.upload(&scene.splats, None).unwrap();
    let (_, mut state) = engine.download().unwrap();
    state.views.photometric = models.clone();
    engine.upload(&scene.splats, Some(&state)).unwrap();
    engine.step(ViewId(2), step).unwrap();
    let Report::Step(report) = last_report(engine) else {
        panic!("no report of a step");
    };
    let (_, state) = engine.download().unwrap();
    assert_eq!(engine.view_state().unwrap(), state.views);
    (report.loss, state)
}

/// Returns the first moments of a view's model, laid out like its row.
fn moments_of(models: &Photometric, view: usize) -> Vec<f64> {
    let rows = models.first_moments.as_chunks::<ROW>().0;
    let mut row = widened(&rows[models.camera_row(view)]);
    row[..CAMERA].copy_from_slice(&widened(&rows[view][..CAMERA]));
    row
}

fn check(make: Make<'_>, name: &str, is_masked: bool) {
    let scene = scenes::named(name);
    let photo = match is_masked {
        true => masked_photo(&scene),
        false => photo(&scene),
    };
    let what = format!("{name}, masked: {is_masked}");
    let mut engine = make();
    engine.add_views(views(&scene, &photo)).unwrap();
    let models = drawn(&scene);
    let learning = with_model(settings(&scene, 7));
    let (loss, state) = step(engine.as_mut(), &scene, &models, &learning);
    let row = widened(&models.model(2).unwrap().row);
    let (true_loss, gradients, by_row) = expected(&scene, &photo, &learning, &row);
    let relative = (f64::from(loss) / true_loss - 1.0).abs();
    assert!(relative < 1e-5, "{what}: loss {loss}, not {true_loss}");

    // After one step the first moments are 0.1 times the gradient.
    let after = &state.views.photometric;
    assert_eq!(after.seen, [0, 1, 0, 0, 1, 0], "{what}");
    let tenfold = |values: Vec<f64>| values.iter().map(|m| 10.0 * m).collect::<Vec<_>>();
    let mut errors = vec![(
        "row",
        compare::relative_l2(&tenfold(moments_of(after, 2)), &by_row),
    )];
    let splats = [
        ("sh0", &state.first_moments.sh0),
        ("means", &state.first_moments.means),
    ];
    for (name, rows) in splats {
        let actual = tenfold(widened(rows.as_flattened()));
        let tensors = gradients.tensors();
        let (_, truth) = tensors.iter().find(|(other, _)| *other == name).unwrap();
        errors.push((name, compare::relative_l2(&actual, truth)));
    }
    for (name, error) in errors {
        println!("{what:24} {name:6} {error:.2e}");
        assert!(error < TOLERANCE, "{what} {name}: {error:.2e}");
    }
    check_adam(&models, after, 2, &what);
}

/// Checks that the step of a view's model follows from its moments, and that no other number changes.
fn check_adam(before: &Photometric, after: &Photometric, view: usize, what: &str) {
    let camera = before.camera_row(view);
    for i in 0..before.numbers.len() {
        let (row, at) = (i / ROW, i % ROW);
        let (is_photo, is_camera) = (row == view && at < 3, row == camera && at >= CAMERA);
        if !(is_photo || is_camera) || at == ROW - 1 {
            assert_eq!(before.numbers[i], after.numbers[i], "{what}: number {i}");
            continue;
        }
        let old = [
            before.numbers[i],
            before.first_moments[i],
            before.second_moments[i],
        ]
        .map(f64::from);
        let adam = Adam::default();
        let beta1 = f64::from(adam.beta1);
        let gradient = (f64::from(after.first_moments[i]) - beta1 * old[1]) / (1.0 - beta1);
        let (rate, seen) = match is_photo {
            true => (LEARNT.rate, after.seen[2 * row]),
            false => (LEARNT.rate * CAMERA_SHARE, after.seen[2 * row + 1]),
        };
        let [value, _, second] = reference::adam(old, gradient, rate.into(), &adam, seen);
        let error = (f64::from(after.numbers[i]) - value).abs();
        assert!(error < 1e-6, "{what}, number {i}: {error:e}");
        let second_error = (f64::from(after.second_moments[i]) - second).abs();
        assert!(
            second_error <= 1e-5 * second,
            "{what}, number {i}: {second_error:e}"
        );
    }
}

/// Checks loss, first moments of splats and of the model, and the step of the model: opaque and masked photos, an image
/// smaller than the window of SSIM, views that share a camera. Then checks more steps, whose bias corrections count the
/// view's own steps and those of its camera.
pub fn photometric_matches_the_reference(make: Make<'_>) {
    for (name, is_masked) in [
        ("random_sh3", false),
        ("random_sh3", true),
        ("background", false),
        ("tiny_image", false),
    ] {
        check(make, name, is_masked);
    }
    let scene = scenes::named("random_sh1");
    let mut engine = make();
    engine.upload(&scene.splats, None).unwrap();
    let views = views(&scene, &photo(&scene));
    engine.add_views(views[..1].to_vec()).unwrap();
    // A step without the setting learns nothing.
    engine.step(ViewId(0), &settings(&scene, 7)).unwrap();
    assert!(engine.view_state().unwrap().photometric.is_empty());
    let learning = |step| with_model(settings(&scene, step));
    engine.step(ViewId(0), &learning(8)).unwrap();
    // Views that are added later start with models that change nothing, or with their camera's.
    engine.add_views(views[1..].to_vec()).unwrap();
    let mut before = engine.view_state().unwrap().photometric;
    assert_eq!(before.cameras, [0]);
    let cameras = cameras(&scene).map(|camera| PosedCamera::new(&camera).unwrap());
    before.extend_to(&cameras);
    for (step, view, seen) in [
        (9, 2, [1, 2, 0, 0, 1, 0]),
        (10, 1, [1, 2, 1, 1, 1, 0]),
        (11, 2, [1, 3, 1, 1, 2, 0]),
    ] {
        engine.step(ViewId(view), &learning(step)).unwrap();
        let after = engine.view_state().unwrap().photometric;
        assert_eq!(after.seen, seen);
        check_adam(&before, &after, view, &format!("step {step}"));
        before = after;
    }
}

/// Checks steps over three views and a densification round. One run is downloaded after three steps and resumed in
/// another engine; whole runs use an engine of each of `makes`. Splats, moments and models are bit-identical.
pub fn photometric_repeats_itself(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let views = views(&scene, &photo(&scene));
    let state = learnt_models_repeat(makes, &scene, &views, |step| {
        with_model(settings(&scene, step))
    });
    assert_eq!(state.views.photometric.seen, [2, 4, 2, 2, 2, 0]);
}
