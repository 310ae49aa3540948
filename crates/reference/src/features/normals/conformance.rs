//! Steps with losses of the planes of Gaussians against the f64 reference.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use super::matching::{Seen, matching_consistency};
use super::oracle::PlaneConsistency;
use crate as reference;
use crate::Gaussian;
use crate::compare::{self, TOLERANCE};
use crate::conformance::engines::{Make, last_loss};
use crate::conformance::training::{moments, photo, settings, step_with, steps_repeat_themselves};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::features::normals::matching::MatchedView;
use dapple_engine::{
    Engine, EngineExt, FeatureInput, Gradients, LossTerm, OptimizerState, RenderSettings,
    StepSettings, TrainView, ViewId,
};
use dapple_scene::grey::GreyPhoto;
use dapple_scene::{Camera, Lens, Pose, Splats};
use glam::DQuat;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Least distance of decisions from their thresholds.
const MARGIN: f64 = 1e-5;

/// The same for matching photos: also the distance of samples from the next pixel, where derivatives jump.
const MATCHING_MARGIN: f64 = 3e-5;

/// Weight of the loss: its gradient is as large as that of the image.
const WEIGHT: f32 = 2.0;

fn weighted(scene: &TestScene, number: u32, weight: f32) -> StepSettings {
    let settings = settings(scene, number);
    StepSettings {
        losses: settings.losses.with(LossTerm::Normals, weight),
        ..settings
    }
}

/// Returns the reference's gradients of a step: of the loss of the image, and of the planes. `None` for a scene in which
/// fewer than `least` pixels count, or in which an engine may decide otherwise.
fn expected_gradients(
    scene: &TestScene,
    (least, margin): (usize, f64),
    planes: impl Fn(&[Gaussian], usize) -> PlaneConsistency,
) -> Option<[Gradients<f64>; 2]> {
    let (splats, camera, render) = (&scene.splats, &scene.camera, &scene.settings);
    let image = reference::render(splats, camera, render).unwrap();
    let target = reference::photo_target(&photo(scene), render.background);
    let (width, height) = (camera.width as usize, camera.height as usize);
    let ssim_weight = settings(scene, 1).losses[LossTerm::Ssim].into();
    let (_, by_rgb) = reference::loss(&image.rgb, &target, width, height, None, ssim_weight);
    let of_image = reference::gradients(splats, camera, render, &by_rgb, None).unwrap();
    let found = planes(&Gaussian::all(splats), splats.sh_rest_stride());
    (found.counted > least && found.margin > margin).then_some([of_image, found.gradients])
}

/// Checks the first moments after a step with a loss of planes, and that the reported loss and the density statistics
/// are those of the image alone, which `plain` has.
fn compare_moments(
    name: &str,
    expected: [Gradients<f64>; 2],
    run: &mut dyn FnMut(f32) -> (Splats, OptimizerState, f32),
) {
    let (splats, state, loss) = run(WEIGHT);
    let plain = run(0.0);
    assert!(splats != plain.0, "{name}: the loss changes nothing");
    assert_eq!(loss, plain.2, "{name}: the image's loss");
    assert_eq!(
        state.gradient_sums, plain.1.gradient_sums,
        "{name}: density statistics"
    );
    let [of_image, of_planes] = expected.map(|g| g.tensors());
    for (what, actual) in moments(&state) {
        let named = |all: &[(&'static str, Vec<f64>)]| -> Vec<f64> {
            all.iter()
                .find(|(tensor, _)| *tensor == what)
                .unwrap()
                .1
                .clone()
        };
        let (image, planes) = (named(&of_image), named(&of_planes));
        let expected: Vec<f64> = image.iter().zip(&planes).map(|(a, b)| a + b).collect();
        let error = compare::relative_l2(&actual, &expected);
        println!("{name:14} {what:10} {error:.2e}");
        assert!(error < TOLERANCE, "{name} {what}: {error:.2e}");
    }
}

/// Checks steps with the loss of normals in the test scenes.
pub fn normal_steps_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let mut compared = 0;
    for scene in scenes::all() {
        let planes = |all: &[Gaussian], stride: usize| {
            let (camera, render) = (&scene.camera, &scene.settings);
            reference::normal_consistency(all, stride, camera, render, WEIGHT.into()).unwrap()
        };
        let Some(expected) = expected_gradients(&scene, (30, MARGIN), planes) else {
            continue;
        };
        compared += 1;
        compare_moments(scene.name, expected, &mut |weight| {
            engine.upload(&scene.splats, None).unwrap();
            let settings = weighted(&scene, 1, weight);
            let loss = step_with(engine.as_mut(), &scene, &photo(&scene), &settings);
            let (splats, state) = engine.download().unwrap();
            (splats, state, loss)
        });
    }
    assert!(compared > 25, "{compared} scenes");
}

/// Waves that are wide enough for patches of rough planes to match, with a pixel that does not count.
fn waves(size: [u32; 2]) -> GreyPhoto {
    let [width, height] = size;
    let shade = |i: u32| {
        let (x, y) = (f64::from(i % width), f64::from(i / width));
        let (x, y) = (x / f64::from(width), y / f64::from(height));
        let waves = (9.0 * x + 3.0 * y).sin() + (7.0 * y - 4.0 * x).sin();
        (128.0 + 60.0 * waves) as u8
    };
    let mut shades: Vec<u8> = (0..width * height).map(shade).collect();
    shades[0] = 0;
    GreyPhoto { size, shades }
}

/// Two views of a scene, the second a little beside the first, with photos of other sizes than the views. An index of
/// a view in the list is not that of the engine.
fn matched(scene: &TestScene, ids: [ViewId; 2]) -> Vec<MatchedView> {
    let [width, height] = [scene.camera.width, scene.camera.height];
    let view = |view: ViewId, size: [u32; 2], neighbours: Vec<usize>| MatchedView {
        view,
        photo: waves(size),
        neighbours,
    };
    vec![
        view(ids[1], [width - 3, height], vec![]),
        view(ids[0], [width, height - 1], vec![0]),
    ]
}

/// Returns the camera beside that of a scene.
fn beside(scene: &TestScene) -> Camera {
    let mut camera = scene.camera;
    let pose = &mut camera.camera_from_world;
    let turn = DQuat::from_rotation_y(0.02) * DQuat::from_rotation_x(0.013);
    (pose.rotation, pose.translation) = (turn * pose.rotation, turn * pose.translation);
    pose.translation.x += 0.05;
    camera
}

/// Walls of discs that are turned at random, through lenses.
fn walls() -> impl Iterator<Item = TestScene> {
    let lenses = [
        ("wall", Lens::Pinhole),
        ("wall_opencv", Lens::OpenCv([-0.16, 0.05, 0.012, -0.015])),
        ("wall_fisheye", Lens::Fisheye([0.05, -0.01, 0.002, 0.001])),
        ("wall_eucm", Lens::Eucm([0.6, 1.1])),
    ];
    let wall = |(name, lens): (&'static str, Lens), seed: u64| {
        let random = &mut Random::new(300 + seed);
        let count = 8 * 6;
        let mut splats = Splats {
            sh_degree: 0,
            ..Splats::default()
        };
        for i in 0..count {
            let place = [f64::from(i % 8) - 3.5, f64::from(i / 8) - 2.5, 0.0];
            let mut around = |by: f64| random.uniform(-by, by);
            let mean = [
                place[0] * 0.5,
                place[1] * 0.5,
                4.0 + 0.1 * place[0] + around(0.02),
            ];
            splats.means.push(mean.map(|v| v as f32));
            splats.scales.push([-1.2, -1.3, -5.0]);
            let turn = [1.0, around(0.05), around(0.05), around(0.05)];
            splats.quats.push(turn.map(|v| v as f32));
            splats.opacities.push(2.0 + around(0.5) as f32);
            splats.sh0.push([0, 1, 2].map(|_| around(0.5) as f32));
        }
        let mut camera = Camera::pinhole(46, 35, 40.0, Pose::IDENTITY);
        camera.lens = lens;
        TestScene {
            name,
            splats,
            camera,
            settings: RenderSettings {
                background: [0.3, 0.7, 0.5],
                sh_degree: 0,
                antialias: seed == 1,
                ..RenderSettings::default()
            },
        }
    };
    lenses
        .into_iter()
        .flat_map(move |lens| (0..12).map(move |seed| wall(lens, seed)))
}

/// Checks steps with the loss of matching photos before walls.
pub fn matching_steps_match_the_reference(make: Make<'_>) {
    let mut compared = 0;
    let mut lenses = BTreeSet::new();
    for scene in walls() {
        let other = beside(&scene);
        let photos = matched(&scene, [ViewId(0), ViewId(1)]);
        // Word 7/16 of the range is place 7 of the grid: column 3, row 1.
        let draw = [0, 7 << 28];
        let planes = |all: &[Gaussian], stride: usize| {
            let own = Seen {
                camera: &scene.camera,
                photo: &photos[1].photo,
            };
            let other = Seen {
                camera: &other,
                photo: &photos[0].photo,
            };
            let pair = (&own, &other, [3, 1]);
            let weight = WEIGHT.into();
            matching_consistency(all, stride, pair, &scene.settings, weight).unwrap()
        };
        let Some(expected) = expected_gradients(&scene, (20, MATCHING_MARGIN), planes) else {
            continue;
        };
        compared += 1;
        lenses.insert(scene.name);
        compare_moments(scene.name, expected, &mut |weight| {
            let mut engine = make();
            engine.upload(&scene.splats, None).unwrap();
            let view = add_matched(engine.as_mut(), &scene);
            let mut settings = settings(&scene, 1);
            settings.losses[LossTerm::Matching] = weight;
            settings.features.normals.draw = draw;
            engine.step(view, &settings).unwrap();
            let loss = last_loss(engine.as_mut());
            let (splats, state) = engine.download().unwrap();
            (splats, state, loss)
        });
    }
    assert!(compared > 8 && lenses.len() == 4, "{compared} scenes");
}

/// Adds the two views of a scene and the photos to compare. Returns the first view.
fn add_matched(engine: &mut dyn Engine, scene: &TestScene) -> ViewId {
    let photo = Arc::new(photo(scene));
    let view = |camera| TrainView {
        camera,
        photo: Arc::clone(&photo),
    };
    let views = vec![view(scene.camera), view(beside(scene))];
    let ids = engine.add_views(views).unwrap();
    let matched = matched(scene, [ids[0], ids[1]]);
    engine.set_input(FeatureInput::Matching(matched)).unwrap();
    ids[0]
}

/// Checks that steps and a densification round are bit-identical with an engine of each of `makes`.
pub fn normal_steps_repeat_themselves(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    steps_repeat_themselves(makes, &scene, &|engine, number| {
        let settings = weighted(&scene, number, WEIGHT);
        step_with(engine, &scene, &photo(&scene), &settings);
    });
    let wall = walls().next().unwrap();
    steps_repeat_themselves(makes, &wall, &|engine, number| {
        let view = add_matched(engine, &wall);
        let mut settings = weighted(&wall, number, WEIGHT);
        settings.losses[LossTerm::Matching] = WEIGHT;
        settings.features.normals.draw = [number << 30, number << 29];
        engine.step(view, &settings).unwrap();
    });
}
