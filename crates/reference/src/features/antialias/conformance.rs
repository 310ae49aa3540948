//! Anti-aliasing: images, gradients, steps and density control with both filters.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::Gaussian;
use crate::compare::{self, TOLERANCE};
use crate::conformance::decided::{decided, settle};
use crate::conformance::engines::{Make, growing, with_splats};
use crate::conformance::training::{check_moments, photo, settings};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::features::antialias;
use dapple_engine::{
    DensifyPlan, Engine, EngineExt, Gradients, LearningRates, LossTerm, OptimizerState, Relocation,
    RenderSettings, StepFeatures, StepSettings, TrainView,
};
use dapple_scene::{Camera, Panorama, Photo, Splats};
use std::sync::Arc;

/// Margin of decisions, in units of ln alpha: pixels with a decision nearer to its threshold are not
/// compared.
const MARGIN: f64 = 2e-5;

/// Creates a state in which each Gaussian has the 3D filter of this standard deviation.
fn state_with(splats: &Splats, filter_3d: Vec<f32>) -> OptimizerState {
    let n = splats.len();
    let zeros = Splats {
        means: vec![[0.0; 3]; n],
        scales: vec![[0.0; 3]; n],
        quats: vec![[0.0; 4]; n],
        opacities: vec![0.0; n],
        sh0: vec![[0.0; 3]; n],
        sh_rest: vec![0.0; splats.sh_rest.len()],
        sh_degree: splats.sh_degree,
    };
    OptimizerState {
        first_moments: zeros.clone(),
        second_moments: zeros,
        gradient_sums: vec![0.0; n],
        visible_counts: vec![0.0; n],
        filter_3d,
        ..OptimizerState::default()
    }
}

fn antialiased(scene: &TestScene) -> RenderSettings {
    RenderSettings {
        antialias: true,
        ..scene.settings
    }
}

/// Returns deviations: every third Gaussian has no filter. The filters of the others have the width of
/// their Gaussian, or are wider or narrower.
fn some_deviations(splats: &Splats) -> Vec<f32> {
    let mut random = Random::new(23);
    let mut one = |(i, scale): (usize, &[f32; 3])| {
        let deviation = (f64::from(scale[0]) + random.uniform(-2.0, 1.0)).exp() as f32;
        if i % 3 == 0 || !deviation.is_finite() {
            0.0
        } else {
            deviation
        }
    };
    splats.scales.iter().enumerate().map(&mut one).collect()
}

/// Checks every test scene with the 2D filter only and with both. Image, each gradient tensor and the
/// pose's are within [`TOLERANCE`], and absent Gaussians have no gradient.
pub fn antialiasing_matches_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    for scene in scenes::all() {
        for deviations in [
            vec![0.0; scene.splats.len()],
            some_deviations(&scene.splats),
        ] {
            let filter = if deviations.iter().any(|&d| d > 0.0) {
                "3D"
            } else {
                "2D"
            };
            let settings = antialiased(&scene);
            for (what, error) in errors(engine.as_mut(), &scene, &settings, deviations) {
                println!("{:28} {filter} {what:10} {error:.2e}", scene.name);
                if error > TOLERANCE {
                    failures.push(format!("{} {filter} {what}: {error:.2e}", scene.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Checks every test scene with dilations other than the usual ones, as [`antialiasing_matches_the_reference`] does. Without
/// needles for smaller ones: their covariances are nearly singular, and gradients of scales lose digits (6e-3 at 0.05).
pub fn dilations_match_the_reference(make: Make<'_>) {
    let mut failures = Vec::new();
    let mut engine = make();
    for scene in scenes::all() {
        for (antialias, extra_dilation) in [(false, -0.25), (false, 1.7), (true, 0.2)] {
            if extra_dilation < 0.0 && scene.name.contains("needles") {
                continue;
            }
            let settings = RenderSettings {
                antialias,
                extra_dilation,
                ..scene.settings
            };
            let none = vec![0.0; scene.splats.len()];
            for (what, error) in errors(engine.as_mut(), &scene, &settings, none) {
                if error > TOLERANCE {
                    let name = scene.name;
                    failures.push(format!(
                        "{name} {antialias} {extra_dilation} {what}: {error:.2e}"
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn errors(
    engine: &mut dyn Engine,
    scene: &TestScene,
    settings: &RenderSettings,
    deviations: Vec<f32>,
) -> Vec<(&'static str, f64)> {
    let (splats, camera) = (&scene.splats, &scene.camera);
    let gaussians = Gaussian::all(splats);
    let wide: Vec<f64> = deviations.iter().map(|&d| d.into()).collect();
    let pairs = gaussians.iter().zip(&wide);
    let fused: Vec<Gaussian> = pairs
        .map(|(g, &d)| reference::with_filter_3d(g, d))
        .collect();
    engine
        .upload(splats, Some(&state_with(splats, deviations)))
        .unwrap();

    let expected = reference::render_gaussians(&fused, camera, settings).unwrap();
    let mut actual = engine.render(camera, settings).unwrap();
    let decided = decided(scene.name, &fused, camera, settings, MARGIN);
    settle(&mut actual, &expected, &decided);
    let mut errors = compare::compare_images(&actual, &expected);

    let mut random = Random::new(5);
    let pixels = camera.width as usize * camera.height as usize;
    let mut weights =
        |n: usize| -> Vec<f32> { (0..n).map(|_| random.uniform(-1.0, 1.0) as f32).collect() };
    let (mut d_rgb, mut d_alpha) = (weights(3 * pixels), weights(pixels));
    for (pixel, _) in decided.iter().enumerate().filter(|&(_, &sure)| !sure) {
        d_rgb[3 * pixel..3 * pixel + 3].fill(0.0);
        d_alpha[pixel] = 0.0;
    }
    let widened = |values: &[f32]| values.iter().map(|&v| v.into()).collect::<Vec<f64>>();
    let expected = reference::with_filter_3d_gradients(
        &gaussians,
        &wide,
        splats.sh_rest_stride(),
        camera,
        settings,
        (&widened(&d_rgb), Some(&widened(&d_alpha))),
    )
    .unwrap();
    let actual = engine
        .gradients(camera, settings, &d_rgb, Some(&d_alpha))
        .unwrap();
    errors.extend(compare::compare_gradients(&actual, &expected));
    errors.push(("pose", compare::compare_pose(&actual, &expected)));
    let visible = reference::visible(&fused, camera, settings).unwrap();
    let absent: Vec<usize> = (0..splats.len())
        .filter(|&i| visible.iter().all(|v| v.index != i))
        .collect();
    let strays = compare::stray_gradients(&actual, &absent);
    errors.push(("strays", strays.len() as f64));
    errors
}

/// Returns the numbers of a step that sets the 3D filters, or not.
fn refreshing(refresh: bool) -> StepFeatures {
    StepFeatures {
        antialias: antialias::Step { refresh },
        ..StepFeatures::default()
    }
}

/// Checks that a step with `refresh` sets the 3D filters by the training views before it
/// renders, and differentiates through them. Other steps do not change the filters.
pub fn steps_refresh_the_3d_filter(make: Make<'_>) {
    let scene = scenes::named("random_sh1");
    let cameras = three_cameras(&scene);
    let photo = photo(&scene);
    let mut engine = with_splats(make, &scene.splats);
    let views = cameras.iter().map(|&camera| TrainView {
        camera,
        photo: Arc::new(photo.clone()),
    });
    let ids = engine.add_views(views.collect()).unwrap();
    let step = StepSettings {
        render: antialiased(&scene),
        features: refreshing(true),
        learning_rates: LearningRates {
            means: 0.05,
            ..settings(&scene, 1).learning_rates
        },
        ..settings(&scene, 1)
    };
    engine.step(ids[0], &step).unwrap();
    let (after, state) = engine.download().unwrap();
    let expected: Vec<f64> = deviations(&scene.splats, &cameras, &step);
    let actual: Vec<f64> = state.filter_3d.iter().map(|&d| d.into()).collect();
    assert!(expected.contains(&0.0), "all are seen");
    let error = compare::relative_l2(&actual, &expected);
    println!("deviations {error:.2e}");
    assert!(error < 1e-6, "deviations: {error:.2e}");
    let gradient = loss_gradient(&scene, &cameras[0], &step, &photo, &expected);
    check_moments(&state.first_moments, &gradient, "3D filter");

    // Moved Gaussians have other deviations, but only after a refresh.
    let next = StepSettings {
        step: 2,
        features: refreshing(false),
        ..step
    };
    engine.step(ids[1], &next).unwrap();
    assert_eq!(engine.download().unwrap().1.filter_3d, state.filter_3d);
    let moved = deviations(&after, &cameras, &step);
    assert!(compare::relative_l2(&moved, &expected) > 1e-4);

    // A panorama among other views sees all around; an equirectangular one sees all beyond its near plane.
    for panorama in Panorama::ALL {
        let round = panorama.camera(64, 32, cameras[0].camera_from_world);
        let mixed = [cameras[1], round, cameras[2]];
        let mut engine = with_splats(make, &scene.splats);
        let mut views = mixed.map(|camera| TrainView {
            camera,
            photo: Arc::new(photo.clone()),
        });
        views[1].photo = Arc::new(Photo::from_rgb(64, 32, vec![90; 64 * 32 * 3]));
        let ids = engine.add_views(views.into()).unwrap();
        engine.step(ids[1], &step).unwrap();
        let (_, state) = engine.download().unwrap();
        let expected: Vec<f64> = deviations(&scene.splats, &mixed, &step);
        let actual: Vec<f64> = state.filter_3d.iter().map(|&d| d.into()).collect();
        if panorama == Panorama::Equirectangular {
            assert!(!expected.contains(&0.0), "a panorama misses some");
        }
        let error = compare::relative_l2(&actual, &expected);
        assert!(error < 1e-6, "deviations of {panorama:?}: {error:.2e}");
    }

    // A run without anti-aliasing has no filters.
    let mut plain = with_splats(make, &scene.splats);
    let views = vec![TrainView {
        camera: scene.camera,
        photo: Arc::new(photo),
    }];
    let id = plain.add_views(views).unwrap()[0];
    plain.step(id, &settings(&scene, 1)).unwrap();
    assert!(plain.download().unwrap().1.filter_3d.is_empty());
}

/// Returns the gradient of a step's loss in the reference.
fn loss_gradient(
    scene: &TestScene,
    camera: &Camera,
    step: &StepSettings,
    photo: &Photo,
    deviations: &[f64],
) -> Gradients<f64> {
    let gaussians = Gaussian::all(&scene.splats);
    let pairs = gaussians.iter().zip(deviations);
    let fused: Vec<Gaussian> = pairs
        .map(|(g, &d)| reference::with_filter_3d(g, d))
        .collect();
    let settings = &step.render;
    let image = reference::render_gaussians(&fused, camera, settings).unwrap();
    let target = reference::photo_target(photo, settings.background);
    let (width, height) = (photo.width as usize, photo.height as usize);
    let weight = step.losses[LossTerm::Ssim].into();
    let (_, d_rgb) = reference::loss(&image.rgb, &target, width, height, None, weight);
    let stride = scene.splats.sh_rest_stride();
    let both = (d_rgb.as_slice(), None);
    reference::with_filter_3d_gradients(&gaussians, deviations, stride, camera, settings, both)
        .unwrap()
}

fn deviations(splats: &Splats, cameras: &[Camera], step: &StepSettings) -> Vec<f64> {
    Gaussian::all(splats)
        .iter()
        .map(|g| reference::deviation(g.mean, cameras, step.render.near).unwrap())
        .collect()
}

/// Returns the scene's camera, a finer one that sees a corner, and one that faces away.
fn three_cameras(scene: &TestScene) -> [Camera; 3] {
    let mut fine = scene.camera;
    (fine.fx, fine.fy) = (5.0 * fine.fx, 4.0 * fine.fy);
    (fine.cx, fine.cy) = (fine.cx * 0.5, fine.cy * 1.2);
    let mut away = scene.camera;
    let pose = &mut away.camera_from_world;
    let turn = glam::DQuat::from_axis_angle(glam::DVec3::Y, std::f64::consts::PI);
    pose.rotation = turn * pose.rotation;
    pose.translation = turn * pose.translation;
    // Some of the Gaussians are in no frame.
    let mut first = scene.camera;
    first.fx *= 2.5;
    [first, fine, away]
}

/// Checks that density control carries deviations with the Gaussians, and that copies have their
/// parent's.
pub fn density_control_carries_the_3d_filter(make: Make<'_>) {
    let scene = scenes::named("crowd");
    let n = scene.splats.len();
    // Deviations are unique, so that none can be mistaken for another.
    let filter_3d: Vec<f32> = (0..n).map(|i| (i + 1) as f32 / 1024.0).collect();
    let mut engine = make();
    let mut round = |plan: &DensifyPlan| {
        let mut state = state_with(&scene.splats, filter_3d.clone());
        state.gradient_sums = (0..n).map(|i| (i % 7) as f32).collect();
        state.visible_counts = vec![4.0; n];
        let mut splats = scene.splats.clone();
        // Unique colours identify the parent of each copy; splitting moves the rest.
        for (i, sh0) in splats.sh0.iter_mut().enumerate() {
            sh0[0] = filter_3d[i];
        }
        splats.opacities = (0..n)
            .map(|i| if i % 9 == 0 { -9.0 } else { 1.0 })
            .collect();
        engine.upload(&splats, Some(&state)).unwrap();
        engine.densify(plan).unwrap();
        let (splats, state) = engine.download().unwrap();
        assert!(splats.len() != n);
        let parents: Vec<f32> = splats.sh0.iter().map(|sh0| sh0[0]).collect();
        assert_eq!(state.filter_3d, parents);
        assert_ne!(
            parents[..n.min(parents.len())],
            filter_3d[..n.min(parents.len())]
        );
    };
    let adc = DensifyPlan {
        grow_gradient: Some(1.0),
        ..growing()
    };
    round(&adc);
    round(&DensifyPlan {
        relocate: Some(Relocation {
            dead_opacity: 0.005,
            add_permille: 200,
        }),
        ..adc
    });
    // With the Morton order after it, on engines that have one.
    round(&DensifyPlan { step: 5000, ..adc });
}

/// Checks that six steps and a densification round, with an engine of each of `makes`, give
/// bit-identical results.
pub fn antialiased_runs_repeat_themselves(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let run = |make: Make<'_>| {
        let mut engine = with_splats(make, &scene.splats);
        let views = vec![TrainView {
            camera: scene.camera,
            photo: Arc::new(photo(&scene)),
        }];
        let id = engine.add_views(views).unwrap()[0];
        for number in 1..=6 {
            let step = StepSettings {
                render: antialiased(&scene),
                features: refreshing(number % 3 == 1),
                ..settings(&scene, number)
            };
            engine.step(id, &step).unwrap();
            if number == 3 {
                engine.densify(&growing()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let first = run(makes[0]);
    assert!(first.0.len() > scene.splats.len(), "nothing grew");
    assert!(first.1.filter_3d.iter().any(|&d| d > 0.0));
    for (i, make) in makes.iter().enumerate().skip(1) {
        assert!(run(make) == first, "run {i} differs");
    }
}
