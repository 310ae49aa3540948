//! Pose refinement against the reference: gradient, Adam, the motion, and bit-identical results of
//! resumed and repeated runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::PoseMoments;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, last_report};
use crate::conformance::training::{photo, settings};
use crate::scenes::{self, TestScene};
use dapple_engine::{
    Engine, EngineExt, LossTerm, OptimizerState, PoseRates, RefinedPose, Report, StepFeatures,
    StepSettings, TrainView, ViewId,
};
use dapple_scene::{Camera, Photo, Pose, Splats};
use glam::{DQuat, DVec3};
use std::sync::Arc;

/// Step sizes, about the size of a step's motion. Errors of `f32` and of the gradient's tolerance are
/// far below.
const RATES: PoseRates = PoseRates {
    rotation: 2e-3,
    translation: 3e-3,
};
const STEPS: u32 = 4;

/// Checks the camera's motion after each of several steps. A view without steps keeps its pose, and the
/// splats of a step do not depend on refinement. An engine that uploads a downloaded state continues
/// bit-identically. Engines of `makes` differ only in settings that must not change the result.
pub fn poses_match_the_reference(makes: &[Make<'_>]) {
    for name in ["random_sh3", "off_centre", "crowd"]
        .into_iter()
        .chain(scenes::SEAMS)
    {
        let scene = scenes::named(name);
        let photo = photo(&scene);
        follows_the_reference(makes[0], &scene, &photo);
        let whole = run(makes[0], &scene, &photo, RATES, None);
        let (plain, state) = run(makes[0], &scene, &photo, PoseRates::default(), None);
        assert!(
            state.views.poses.is_empty(),
            "{name}: poses without a request"
        );
        assert!(plain != whole.0, "{name}: the camera has not moved");
        for stop in 1..STEPS {
            let parts = run(makes[0], &scene, &photo, RATES, Some(stop));
            assert!(parts == whole, "{name}: stopped after {stop}");
        }
        for (i, make) in makes.iter().enumerate().skip(1) {
            let other = run(make, &scene, &photo, RATES, None);
            assert!(other == whole, "{name}: run {i} differs");
        }
    }
    a_first_step_changes_no_splat(makes[0]);
}

fn views(scene: &TestScene, photo: &Photo) -> Vec<TrainView> {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo.clone()),
    };
    vec![view.clone(), view]
}

/// Executes steps on the second of two equal views; with `stop`, another engine resumes after that
/// step.
fn run(
    make: Make<'_>,
    scene: &TestScene,
    photo: &Photo,
    rates: PoseRates,
    stop: Option<u32>,
) -> (Splats, OptimizerState) {
    let fresh = || {
        let mut engine = make();
        engine.add_views(views(scene, photo)).unwrap();
        engine
    };
    let mut engine = fresh();
    engine.upload(&scene.splats, None).unwrap();
    for step in 1..=STEPS {
        let settings = StepSettings {
            features: moving(rates),
            ..settings(scene, step)
        };
        engine.step(ViewId(1), &settings).unwrap();
        if stop == Some(step) {
            let (splats, state) = engine.download().unwrap();
            engine = fresh();
            engine.upload(&splats, Some(&state)).unwrap();
        }
    }
    engine.download().unwrap()
}

/// Returns the numbers of a step that moves the view's camera at these rates.
fn moving(poses: PoseRates) -> StepFeatures {
    StepFeatures {
        poses,
        ..StepFeatures::default()
    }
}

/// Checks steps with fixed splats: only the camera moves, and the reference follows it.
fn follows_the_reference(make: Make<'_>, scene: &TestScene, photo: &Photo) {
    let mut engine = make();
    engine.add_views(views(scene, photo)).unwrap();
    engine.upload(&scene.splats, None).unwrap();
    let mut before = None;
    for step in 1..=STEPS {
        let mut settings = StepSettings {
            features: moving(RATES),
            ..settings(scene, step)
        };
        let none = &mut settings.learning_rates;
        for rate in [
            &mut none.means,
            &mut none.scales,
            &mut none.quats,
            &mut none.opacities,
            &mut none.sh0,
            &mut none.sh_rest,
        ] {
            *rate = 0.0;
        }
        engine.step(ViewId(1), &settings).unwrap();
        let Report::Step(report) = last_report(engine.as_mut()) else {
            panic!("no report of a step");
        };
        let after = check_step(
            engine.as_mut(),
            scene,
            photo,
            before,
            &settings,
            report.loss,
        );
        before = Some(after);
    }
}

/// Checks one step, from the engine's state before it.
fn check_step(
    engine: &mut dyn Engine,
    scene: &TestScene,
    photo: &Photo,
    before: Option<RefinedPose>,
    settings: &StepSettings,
    loss: f32,
) -> RefinedPose {
    let what = format!("{} step {}", scene.name, settings.step);
    let old = before.map_or(scene.camera.camera_from_world, |b| b.pose(&scene.camera));
    let camera = Camera {
        camera_from_world: old,
        ..scene.camera
    };
    let image = reference::render(&scene.splats, &camera, &scene.settings).unwrap();
    let target = reference::photo_target(photo, scene.settings.background);
    let (width, height) = (photo.width as usize, photo.height as usize);
    let weight = settings.losses[LossTerm::Ssim].into();
    let (expected_loss, d_rgb) = reference::loss(&image.rgb, &target, width, height, None, weight);
    let relative = (f64::from(loss) / expected_loss - 1.0).abs();
    assert!(
        relative < 1e-5,
        "{what}: not seen from where the camera is: {relative:e}"
    );
    let gradient = reference::gradients(&scene.splats, &camera, &scene.settings, &d_rgb, None)
        .unwrap()
        .pose;
    let widened = |values: [f32; 6]| values.map(f64::from);
    let moments = before.map_or_else(PoseMoments::default, |b| PoseMoments {
        first: widened(b.first),
        second: widened(b.second),
        visits: settings.step - 1,
    });
    let (expected, next) = reference::refine_pose(
        &old,
        &moments,
        &gradient,
        &settings.features.poses,
        &settings.adam,
    );

    let poses = engine.view_state().unwrap().poses;
    assert_eq!(poses.len(), 2);
    assert_eq!(poses[0].pose(&scene.camera), scene.camera.camera_from_world);
    let after = poses[1];
    let first = compare::relative_l2(&widened(after.first), &next.first);
    let second = compare::relative_l2(&widened(after.second), &next.second);
    let (turn, shift) = motion(&old, &after.pose(&scene.camera));
    let (expected_turn, expected_shift) = motion(&old, &expected);
    let turned = compare::relative_l2(&turn.to_array(), &expected_turn.to_array());
    let moved = compare::relative_l2(&shift.to_array(), &expected_shift.to_array());
    println!("{what}: moments {first:.1e} {second:.1e}, turn {turned:.1e}, shift {moved:.1e}");
    assert!(
        first < TOLERANCE && second < 2.0 * TOLERANCE,
        "{what}: {first:e} {second:e}"
    );
    // A step is 1e-3, and `f32` resolves four digits of it in a rotation's entries near one.
    assert!(
        turned < 1e-3 && moved < 1e-3,
        "{what}: {turned:e} {moved:e}"
    );
    let rows = after.rotation.map(|row| DVec3::from(row.map(f64::from)));
    for (i, row) in rows.iter().enumerate() {
        assert!((row.length() - 1.0).abs() < 1e-6 && row.dot(rows[(i + 1) % 3]).abs() < 1e-6);
    }
    after
}

/// Returns the motion between two poses: the turn as a vector, and the shift of the centre.
fn motion(from: &Pose, to: &Pose) -> (DVec3, DVec3) {
    let turn: DQuat = to.rotation * from.rotation.conjugate();
    (turn.to_scaled_axis(), to.centre() - from.centre())
}

/// Checks that refinement is the last part of a step.
fn a_first_step_changes_no_splat(make: Make<'_>) {
    let scene = scenes::named("random_sh1");
    let photo = photo(&scene);
    let one = |rates: PoseRates| {
        let mut engine = make();
        engine.add_views(views(&scene, &photo)).unwrap();
        engine.upload(&scene.splats, None).unwrap();
        let settings = StepSettings {
            features: moving(rates),
            ..settings(&scene, 1)
        };
        engine.step(ViewId(0), &settings).unwrap();
        engine.download().unwrap()
    };
    let (splats, state) = one(RATES);
    let (plain, plain_state) = one(PoseRates::default());
    assert!(
        splats == plain,
        "a step that refines steps splats otherwise"
    );
    assert!(state.first_moments == plain_state.first_moments);
    assert_eq!(
        (state.views.poses.len(), plain_state.views.poses.len()),
        (2, 0)
    );
}
