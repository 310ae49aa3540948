//! Steps through the appearance MLP, against the reference, and bit-identical results of repeated runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, growing, last_report};
use crate::conformance::training::{check_moments, masked_photo, photo, settings};
use crate::scenes::{self, Random, TestScene};
use crate::{AppearanceMlpGradient, AppearanceMlpReference, Gaussian};
use dapple_engine::appearance_mlp::{self, EMBEDDING, FEATURES, FeatureStep, NETWORK};
use dapple_engine::{
    Adam, AppearanceMlp, AppearanceMlpSettings, Engine, EngineExt, Gradients, LossTerm,
    OptimizerState, PoseRates, Report, StepFeatures, StepSettings, TrainView, ViewId,
};
use dapple_scene::Photo;
use std::ops::RangeInclusive;
use std::sync::Arc;

const LOOK: AppearanceMlpSettings = AppearanceMlpSettings {
    network_rate: 1e-3,
    embedding_rate: 1e-2,
    feature_rate: 2e-3,
    neutral: 0.3,
};

/// Draws different embeddings for `views` views.
fn drawn(scene: &TestScene, views: usize) -> AppearanceMlp {
    let mut random = Random::new(29);
    let mean = scene.splats.means.first().copied().unwrap_or_default();
    let mut mlp = AppearanceMlp::new(mean, 2.0, views, scene.splats.len(), 4);
    for value in mlp.embeddings.iter_mut().chain(&mut mlp.features) {
        *value = random.uniform(-0.3, 0.3) as f32;
    }
    mlp
}

fn with_look(settings: StepSettings) -> StepSettings {
    StepSettings {
        features: StepFeatures {
            appearance_mlp: Some(LOOK),
            ..settings.features
        },
        ..settings
    }
}

/// Uploads splats that have taken no step, with this appearance MLP.
fn upload(engine: &mut dyn Engine, scene: &TestScene, mlp: &AppearanceMlp) {
    engine.upload(&scene.splats, None).unwrap();
    let (_, mut state) = engine.download().unwrap();
    state.views.appearance_mlp = mlp.clone();
    engine.upload(&scene.splats, Some(&state)).unwrap();
}

/// Checks a step of `engine` from drawn embeddings and features.
fn step_matches(engine: &mut dyn Engine, scene: &TestScene, photo: &Photo, what: &str) {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo.clone()),
    };
    let ids = engine.add_views(vec![view.clone(), view]).unwrap();
    let last = ids[1].0;
    let before = drawn(scene, last + 1);
    upload(engine, scene, &before);
    let asked = with_look(settings(scene, 1));
    engine.step(ids[1], &asked).unwrap();
    let Report::Step(report) = last_report(engine) else {
        panic!("no report of a step");
    };
    let (_, state) = engine.download().unwrap();
    assert_eq!(engine.view_state().unwrap(), state.views);

    let Expected {
        loss,
        gradients,
        by_look,
    } = Expected::compute(scene, photo, &asked, &before, last);
    let relative = (f64::from(report.loss) / loss - 1.0).abs();
    assert!(relative < 1e-5, "{what}: loss {}, not {loss}", report.loss);
    check_moments(&state.first_moments, &gradients, what);

    // After one step the first moments are 0.1 times the gradient.
    let tenfold =
        |values: &[f32]| -> Vec<f64> { values.iter().map(|&v| 10.0 * f64::from(v)).collect() };
    let after = &state.views.appearance_mlp;
    let code = 2 * EMBEDDING * last;
    let first = moments_of_features(after, 0);
    let found = [
        (
            "network",
            tenfold(&after.network_moments[..NETWORK]),
            by_look.network,
        ),
        (
            "code",
            tenfold(&after.embedding_moments[code..code + EMBEDDING]),
            by_look.code,
        ),
        ("features", tenfold(&first), by_look.features),
    ];
    for (name, actual, truth) in &found {
        let error = compare::relative_l2(actual, truth);
        println!("{what:10} {name:10} {error:.2e}");
        assert!(error < TOLERANCE, "{what} {name}: {error:.2e}");
    }
    let own = (&found[0].1[..], &found[1].1[..]);
    network_step_matches(&before, after, last, own, &asked.adam, what);
    feature_steps_match(&before, after, &asked.adam, what);
}

/// Loss of a step and its derivatives, by the reference.
struct Expected {
    loss: f64,
    gradients: Gradients<f64>,
    by_look: AppearanceMlpGradient,
}

impl Expected {
    /// Computes the step of `view` from `mlp`, including the pull of [`AppearanceMlpSettings::neutral`].
    fn compute(
        scene: &TestScene,
        photo: &Photo,
        asked: &StepSettings,
        mlp: &AppearanceMlp,
        view: usize,
    ) -> Self {
        let model = AppearanceMlpReference::new(mlp, view);
        let gaussians = Gaussian::all(&scene.splats);
        let looked = model.looked(&gaussians);
        let render = &asked.render;
        let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
        let image = reference::render_gaussians(&looked, &scene.camera, render).unwrap();
        let target = reference::photo_target(photo, render.background);
        let mask = reference::photo_mask(photo);
        let weight = asked.losses[LossTerm::Ssim].into();
        let (loss, d_rgb) =
            reference::loss(&image.rgb, &target, width, height, mask.as_deref(), weight);
        let stride = scene.splats.sh_rest_stride();
        let by_looked =
            reference::gradients_of_gaussians(&looked, stride, &scene.camera, render, &d_rgb, None);
        let (gradients, mut by_look) = model.backward(&gaussians, by_looked.unwrap());
        for (sum, value) in by_look.code[..appearance_mlp::HIDDEN]
            .iter_mut()
            .zip(&model.code)
        {
            *sum += 2.0 * f64::from(LOOK.neutral) / appearance_mlp::HIDDEN as f64 * value;
        }
        Self {
            loss,
            gradients,
            by_look,
        }
    }
}

/// Checks the step of the network and of the embedding of `view`, by the shared formula, from the engine's own gradient
/// by the network and by the embedding.
fn network_step_matches(
    before: &AppearanceMlp,
    after: &AppearanceMlp,
    view: usize,
    (by_network, by_code): (&[f64], &[f64]),
    adam: &Adam,
    what: &str,
) {
    let narrow = |values: &[f64]| -> Vec<f32> { values.iter().map(|&v| v as f32).collect() };
    let mut expected = before.clone();
    let unpulled = AppearanceMlpSettings {
        neutral: 0.0,
        ..LOOK
    };
    let own_code: [f32; EMBEDDING] = narrow(by_code).try_into().unwrap();
    let gradient = (narrow(by_network), own_code);
    appearance_mlp::step(
        &mut expected,
        view,
        (&gradient.0, &gradient.1),
        &unpulled,
        adam,
    );
    let numbers = |mlp: &AppearanceMlp| [mlp.network.clone(), mlp.embeddings.clone()].concat();
    for (i, (a, b)) in numbers(after).iter().zip(numbers(&expected)).enumerate() {
        assert!((a - b).abs() < 1e-5, "{what}: number {i} is {a}, not {b}");
    }
    assert_eq!(after.seen, expected.seen, "{what}");
}

/// Checks the steps of the features. Features of invisible Gaussians do not change.
fn feature_steps_match(before: &AppearanceMlp, after: &AppearanceMlp, adam: &Adam, what: &str) {
    let [first, second] = [0, 1].map(|k| moments_of_features(after, k));
    let own = FeatureStep::next(before, &LOOK, adam);
    let mut moved = 0;
    for i in 0..before.features.len() / FEATURES {
        let row = |values: &[f32]| -> [f32; FEATURES] {
            values[i * FEATURES..(i + 1) * FEATURES].try_into().unwrap()
        };
        let mut features = row(&before.features);
        let by = row(&first).map(|m| m / (1.0 - adam.beta1));
        if by != [0.0; FEATURES] {
            own.advance(
                &mut features,
                &mut [0.0; FEATURES],
                &mut [0.0; FEATURES],
                &by,
            );
            moved += 1;
        } else {
            assert_eq!(row(&second), [0.0; FEATURES], "{what}: Gaussian {i}");
        }
        for (a, b) in row(&after.features).iter().zip(&features) {
            assert!(
                (a - b).abs() < 1e-5,
                "{what}: a feature of {i} is {a}, not {b}"
            );
        }
    }
    assert!(moved > 0, "{what}");
}

/// Returns Adam's first or second moments of features: `[gaussians, FEATURES]`.
fn moments_of_features(mlp: &AppearanceMlp, which: usize) -> Vec<f32> {
    let rows = mlp.feature_moments.chunks_exact(2 * FEATURES);
    rows.flat_map(|row| &row[which * FEATURES..(which + 1) * FEATURES])
        .copied()
        .collect()
}

/// Checks loss, first moments of splats, network and embedding, and their step. The photos are opaque and masked,
/// with SH of all degrees and with lenses. Also checks what engines refuse.
pub fn appearance_mlp_matches_the_reference(make: Make<'_>) {
    for (name, masked) in [
        ("random_sh3", false),
        ("random_sh1", true),
        ("background", false),
        ("crowd", false),
    ] {
        let scene = scenes::named(name);
        let photo = if masked {
            masked_photo(&scene)
        } else {
            photo(&scene)
        };
        step_matches(make().as_mut(), &scene, &photo, name);
    }
    features_follow_their_gaussians(make().as_mut());
    let scene = scenes::named("random_sh1");
    let mut engine = make();
    engine.upload(&scene.splats, None).unwrap();
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(&scene)),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    let error = engine
        .step(id, &with_look(settings(&scene, 1)))
        .unwrap_err();
    assert!(error.to_string().contains("appearance MLP"), "{error}");
    // A step without the appearance MLP is the usual step.
    engine.step(id, &settings(&scene, 1)).unwrap();
    assert!(engine.view_state().unwrap().appearance_mlp.is_empty());
}

/// Checks that new Gaussians of density control have the features of their parent, and no moments.
fn features_follow_their_gaussians(engine: &mut dyn Engine) {
    let scene = scenes::named("crowd");
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(&scene)),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    upload(engine, &scene, &drawn(&scene, 1));
    engine.step(id, &with_look(settings(&scene, 1))).unwrap();
    let (before, old) = engine.download().unwrap();
    engine.densify(&growing()).unwrap();
    let (after, new) = engine.download().unwrap();
    assert!(after.len() > before.len());
    let row = |state: &OptimizerState, i: usize| {
        state.views.appearance_mlp.features[i * FEATURES..(i + 1) * FEATURES].to_vec()
    };
    let mut fresh = 0;
    for i in 0..after.len() {
        // Copies have their parent's colour, and no two parents have the same.
        let from = before.sh0.iter().position(|sh0| *sh0 == after.sh0[i]);
        assert_eq!(row(&new, i), row(&old, from.unwrap()), "Gaussian {i}");
        let moments =
            &new.views.appearance_mlp.feature_moments[2 * i * FEATURES..2 * (i + 1) * FEATURES];
        fresh += usize::from(moments.iter().all(|&v| v == 0.0));
    }
    assert!(fresh >= after.len() - before.len());
}

/// Checks steps over two views with refined poses and a densification round. One run is downloaded after three
/// steps and resumed in another engine; whole runs use an engine of each of `makes`. All results are
/// bit-identical.
pub fn appearance_mlp_repeats_itself(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(&scene)),
    };
    let views = || vec![view.clone(), view.clone()];
    let steps = |engine: &mut dyn Engine, steps: RangeInclusive<u32>| {
        for step in steps {
            let mut settings = with_look(settings(&scene, step));
            settings.features.poses = PoseRates {
                rotation: 1e-4,
                translation: 1e-4,
            };
            engine.step(ViewId(step as usize % 2), &settings).unwrap();
            if step == 3 {
                engine.densify(&growing()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let begin = |engine: &mut dyn Engine| {
        engine.add_views(views()).unwrap();
        upload(engine, &scene, &drawn(&scene, 2));
    };
    let (mut first, mut second) = (makes[0](), makes[1]());
    begin(first.as_mut());
    let (splats, state): (_, OptimizerState) = steps(first.as_mut(), 1..=3);
    second.add_views(views()).unwrap();
    second.upload(&splats, Some(&state)).unwrap();
    let (splats, state) = steps(second.as_mut(), 4..=6);
    assert_eq!(state.views.appearance_mlp.seen, [3, 3]);
    assert_ne!(
        state.views.appearance_mlp.embedding(0),
        state.views.appearance_mlp.embedding(1)
    );
    for (i, make) in makes.iter().enumerate() {
        let mut engine = make();
        begin(engine.as_mut());
        let (other, other_state) = steps(engine.as_mut(), 1..=6);
        assert!(splats == other, "engine {i}: other splats");
        assert!(state == other_state, "engine {i}: other state");
    }
}
