//! A training step against the reference: loss and its gradient through the whole chain, Adam,
//! density statistics; and bit-identical results of repeated runs.

use super::engines::{Make, growing, last_loss, with_splats};
use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::scenes::{self, Random, TestScene};
use dapple_engine::{
    Adam, Engine, EngineExt, Gradients, LearningRates, LossTerm, LossWeights, OptimizerState,
    RenderSettings, StepSettings, TrainView, ViewId,
};
use dapple_scene::{Camera, Photo, Splats};
use glam::DVec3;
use std::ops::RangeInclusive;
use std::sync::Arc;

const SSIM_WEIGHT: f32 = 0.2;

/// Returns noise as a photo, which differs from any render in every pixel.
pub(crate) fn photo(scene: &TestScene) -> Photo {
    let mut random = Random::new(11);
    let n = scene.camera.width as usize * scene.camera.height as usize;
    let rgb = (0..3 * n)
        .map(|_| random.uniform(0.0, 255.0) as u8)
        .collect();
    Photo::from_rgb(scene.camera.width, scene.camera.height, rgb)
}

/// Returns views of a scene: other photos, each seen `moved` further.
pub(crate) fn views(scene: &TestScene, count: u32, moved: DVec3) -> Vec<TrainView> {
    (0..count)
        .map(|i| {
            let mut camera = scene.camera;
            camera.camera_from_world.translation += moved * f64::from(i);
            let mut photo = photo(scene);
            let turned = photo.rgb.len() / 7 * i as usize;
            photo.rgb.rotate_left(turned);
            TrainView {
                camera,
                photo: Arc::new(photo),
            }
        })
        .collect()
}

fn plane(scene: &TestScene, value: impl Fn(u32, u32) -> u8) -> Option<Vec<u8>> {
    let (width, height) = (scene.camera.width, scene.camera.height);
    Some(
        (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| value(x, y))
            .collect(),
    )
}

/// Returns [`photo`] with masked patches.
pub(crate) fn masked_photo(scene: &TestScene) -> Photo {
    let mut masked = photo(scene);
    masked.mask = plane(scene, |x, y| if (x / 9 + y / 7) % 3 == 0 { 0 } else { 255 });
    masked
}

pub(crate) fn settings(scene: &TestScene, step: u32) -> StepSettings {
    StepSettings {
        learning_rates: LearningRates {
            means: 1e-3,
            scales: 2e-3,
            quats: 3e-3,
            opacities: 4e-3,
            sh0: 5e-3,
            sh_rest: 6e-3,
        },
        losses: LossWeights::default().with(LossTerm::Ssim, SSIM_WEIGHT),
        accumulate_density: true,
        ..StepSettings::new(step, scene.settings)
    }
}

/// Returns the gradients of a first step, from the first moments.
pub(crate) fn moments(state: &OptimizerState) -> Vec<(&'static str, Vec<f64>)> {
    let m = &state.first_moments;
    let rest = f64::from(1.0 - Adam::default().beta1);
    let flat = |values: &mut dyn Iterator<Item = f32>| -> Vec<f64> {
        values.map(|v| f64::from(v) / rest).collect()
    };
    vec![
        ("means", flat(&mut m.means.iter().flatten().copied())),
        ("scales", flat(&mut m.scales.iter().flatten().copied())),
        ("quats", flat(&mut m.quats.iter().flatten().copied())),
        ("opacities", flat(&mut m.opacities.iter().copied())),
        ("sh0", flat(&mut m.sh0.iter().flatten().copied())),
        ("sh_rest", flat(&mut m.sh_rest.iter().copied())),
    ]
}

/// Checks that four steps and a densification round are bit-identical with an engine of each of `makes`. `step` executes
/// the step of a number.
pub(crate) fn steps_repeat_themselves(
    makes: &[Make<'_>],
    scene: &TestScene,
    step: &dyn Fn(&mut dyn Engine, u32),
) {
    let run = |make: Make<'_>| -> (Splats, OptimizerState) {
        let mut engine = with_splats(make, &scene.splats);
        for number in 1..=4 {
            step(engine.as_mut(), number);
            if number == 2 {
                engine.densify(&growing()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let first = run(makes[0]);
    assert!(first.0.len() > scene.splats.len(), "nothing grew");
    for (i, make) in makes.iter().enumerate().skip(1) {
        assert!(run(make) == first, "run {i} differs");
    }
}

fn step_loss(engine: &mut dyn Engine, scene: &TestScene, photo: &Photo, step: u32) -> f32 {
    step_with(engine, scene, photo, &settings(scene, step))
}

/// Returns the loss of one step with this photo.
pub(crate) fn step_with(
    engine: &mut dyn Engine,
    scene: &TestScene,
    photo: &Photo,
    settings: &StepSettings,
) -> f32 {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo.clone()),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    engine.step(id, settings).unwrap();
    last_loss(engine)
}

/// Checks first moments: after one step they are 0.1 times the gradient.
pub(crate) fn check_moments(moments: &Splats, expected: &Gradients<f64>, what: &str) {
    let flat = |rows: &mut dyn Iterator<Item = f32>| -> Vec<f64> {
        rows.map(|v| f64::from(v) * 10.0).collect()
    };
    let m = moments;
    let tensors = [
        ("means", flat(&mut m.means.iter().flatten().copied())),
        ("scales", flat(&mut m.scales.iter().flatten().copied())),
        ("sh0", flat(&mut m.sh0.iter().flatten().copied())),
        ("quats", flat(&mut m.quats.iter().flatten().copied())),
        ("opacities", flat(&mut m.opacities.iter().copied())),
        ("sh_rest", flat(&mut m.sh_rest.iter().copied())),
    ];
    for (name, actual) in &tensors {
        let (_, truth) = expected
            .tensors()
            .into_iter()
            .find(|(other, _)| other == name)
            .unwrap();
        let error = compare::relative_l2(actual, &truth);
        println!("{what:10} {name:10} {error:.2e}");
        assert!(error < TOLERANCE, "{what} {name}: {error:.2e}");
    }
}

/// Returns the loss of a photo, and its gradients.
pub(crate) fn truth(
    splats: &Splats,
    camera: &Camera,
    settings: &RenderSettings,
    photo: &Photo,
) -> (f64, Gradients<f64>) {
    let image = reference::render(splats, camera, settings).unwrap();
    let (loss, d_rgb) = reference::loss(
        &image.rgb,
        &reference::photo_target(photo, settings.background),
        photo.width as usize,
        photo.height as usize,
        reference::photo_mask(photo).as_deref(),
        SSIM_WEIGHT.into(),
    );
    let gradients = reference::gradients(splats, camera, settings, &d_rgb, None).unwrap();
    (loss, gradients)
}

/// Returns the density statistics of a photo: screen-space gradients in units of half the image.
pub(crate) fn density_norms(gradients: &Gradients<f64>, photo: &Photo) -> Vec<f64> {
    let half = [f64::from(photo.width) / 2.0, f64::from(photo.height) / 2.0];
    let means2d = gradients.means2d.iter();
    means2d
        .map(|g| (g[0] * half[0]).hypot(g[1] * half[1]))
        .collect()
}

fn check_chain(engine: &mut dyn Engine, scene: &TestScene, photo: &Photo, what: &str) {
    engine.upload(&scene.splats, None).unwrap();
    let loss = step_loss(engine, scene, photo, 1);
    let (_, state) = engine.download().unwrap();

    let (expected_loss, expected) = truth(&scene.splats, &scene.camera, &scene.settings, photo);
    let relative = (f64::from(loss) / expected_loss - 1.0).abs();
    assert!(
        relative < 1e-5,
        "{what}: loss {loss} against {expected_loss}"
    );

    check_moments(&state.first_moments, &expected, what);

    let norms = density_norms(&expected, photo);
    let sums: Vec<f64> = state.gradient_sums.iter().map(|&v| v.into()).collect();
    let error = compare::relative_l2(&sums, &norms);
    assert!(error < TOLERANCE, "{what} density: {error:.2e}");
}

/// Checks loss, first moments and density statistics after one step, for photos that are opaque,
/// masked, transparent, both, and smaller than SSIM's window.
pub fn loss_and_gradient_match_the_reference(make: Make<'_>) {
    let mut engine = make();
    let engine = engine.as_mut();
    // One engine, with lenses that distort and lenses that do not.
    for name in [
        "random_sh3",
        "lens_opencv",
        "off_centre",
        "lens_rad_tan_prism",
        "background",
    ]
    .into_iter()
    .chain(scenes::SEAMS)
    {
        let scene = scenes::named(name);
        check_chain(engine, &scene, &photo(&scene), name);
    }

    check_masks(engine);

    let scene = scenes::named("background");
    let mut transparent = photo(&scene);
    transparent.alpha = plane(&scene, |x, y| (x * 5 + y * 3) as u8);
    check_chain(engine, &scene, &transparent, "alpha");
    transparent.mask = plane(&scene, |x, y| if (x + y) % 13 < 4 { 0 } else { 255 });
    check_chain(engine, &scene, &transparent, "alpha, mask");

    let scene = scenes::named("tiny_image");
    check_chain(engine, &scene, &photo(&scene), "tiny");
}

/// Checks masks with whole windows, with pixels that are the centre of no window, and without a
/// pixel.
fn check_masks(engine: &mut dyn Engine) {
    let scene = scenes::named("random_sh3");
    let (width, height) = (scene.camera.width, scene.camera.height);
    let masked = |counts: &dyn Fn(u32, u32) -> bool| {
        let mut masked = photo(&scene);
        masked.mask = plane(&scene, |x, y| if counts(x, y) { 255 } else { 0 });
        masked
    };
    let holes = masked(&|x, y| (x / 9 + y / 7) % 3 != 0);
    check_chain(engine, &scene, &holes, "masked");
    // In windows, the other half has the colours of the target.
    let half = masked(&|x, _| x < width / 2);
    check_chain(engine, &scene, &half, "half");
    let rim = masked(&|x, y| x.min(y).min(width - 1 - x).min(height - 1 - y) < 5);
    check_chain(engine, &scene, &rim, "rim");
    // Pixels count from the upper half of mask values on.
    let mut soft = photo(&scene);
    soft.mask = plane(&scene, |x, y| 126 + (x + y) as u8 % 4);
    check_chain(engine, &scene, &soft, "soft");

    engine.upload(&scene.splats, None).unwrap();
    let loss = step_loss(engine, &scene, &masked(&|_, _| false), 1);
    let (splats, state) = engine.download().unwrap();
    assert_eq!(loss, 0.0, "a photo without a pixel that counts");
    assert!(splats == scene.splats, "it moves Gaussians");
    let moments = &state.first_moments;
    assert!(moments.means.iter().flatten().all(|&m| m == 0.0));
}

/// Checks density statistics of absolute gradients after one step; the step itself is
/// bit-identical. Engines of `makes` differ only in settings that must not change the result.
pub fn absolute_density_matches_the_reference(makes: &[Make<'_>]) {
    for name in [
        "random_sh3",
        "off_centre",
        "crowd",
        "tile_cap",
        "deep_stack",
        "lens_fisheye",
    ]
    .into_iter()
    .chain(scenes::SEAMS)
    {
        let scene = scenes::named(name);
        let photo = photo(&scene);
        let plain = settings(&scene, 1);
        let absolute = StepSettings {
            absolute_density: true,
            ..plain
        };
        let run = |make: Make<'_>, settings: &StepSettings| {
            let mut engine = with_splats(make, &scene.splats);
            step_with(engine.as_mut(), &scene, &photo, settings);
            engine.download().unwrap()
        };
        let (splats, state) = run(makes[0], &absolute);
        let (plain_splats, plain_state) = run(makes[0], &plain);
        assert!(splats == plain_splats, "{name}: the step differs");
        assert_eq!(state.visible_counts, plain_state.visible_counts);
        for (i, make) in makes.iter().enumerate().skip(1) {
            let (other, other_state) = run(make, &absolute);
            assert!(other == splats && other_state == state, "{name}: run {i}");
        }
        let expected = absolute_norms(&scene, &photo);
        let sums: Vec<f64> = state.gradient_sums.iter().map(|&v| v.into()).collect();
        let error = compare::relative_l2(&sums, &expected);
        println!("{name:10} absolute   {error:.2e}");
        assert!(error < TOLERANCE, "{name} absolute density: {error:.2e}");
        // Sums of absolute values are never smaller, and larger where pixels disagree.
        let larger = state.gradient_sums.iter().zip(&plain_state.gradient_sums);
        assert!(larger.clone().all(|(a, b)| *a >= *b * 0.999));
        assert!(larger.clone().any(|(a, b)| *a > *b * 1.5), "{name}");
    }
}

/// Returns the norms in units of half the image.
fn absolute_norms(scene: &TestScene, photo: &Photo) -> Vec<f64> {
    let image = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    let (width, height) = (photo.width as usize, photo.height as usize);
    let target = reference::photo_target(photo, scene.settings.background);
    let weight = SSIM_WEIGHT.into();
    let (_, d_rgb) = reference::loss(&image.rgb, &target, width, height, None, weight);
    reference::absolute_gradients(&scene.splats, &scene.camera, &scene.settings, &d_rgb)
        .unwrap()
        .into_iter()
        .map(|[x, y]| (x * 0.5 * width as f64).hypot(y * 0.5 * height as f64))
        .collect()
}

/// Checks three steps of Adam, each from the engine's state before it.
pub fn adam_takes_the_textbook_step(make: Make<'_>) {
    let scene = scenes::named("random_sh1");
    let mut engine = with_splats(make, &scene.splats);
    let photo = photo(&scene);
    let (mut before, mut state) = engine.download().unwrap();
    for step in 1..=3 {
        step_loss(engine.as_mut(), &scene, &photo, step);
        let (after, new_state) = engine.download().unwrap();
        for i in 0..after.len() {
            let beta1 = f64::from(Adam::default().beta1);
            let m0 = f64::from(state.first_moments.opacities[i]);
            let v0 = f64::from(state.second_moments.opacities[i]);
            // The engine's gradient follows from its first moment.
            let m1 = f64::from(new_state.first_moments.opacities[i]);
            let gradient = (m1 - beta1 * m0) / (1.0 - beta1);
            let expected = reference::adam(
                [before.opacities[i].into(), m0, v0],
                gradient,
                4e-3,
                &Adam::default(),
                step,
            );
            let error = (f64::from(after.opacities[i]) - expected[0]).abs();
            assert!(error < 1e-5, "step {step}, Gaussian {i}: off by {error:e}");
        }
        (before, state) = (after, new_state);
    }
}

/// Checks that six steps and a densification round on a crowded scene, with an engine of each of
/// `makes`, give bit-identical splats and moments.
pub fn runs_repeat_themselves(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let photo = photo(&scene);
    let run = |make: Make<'_>| -> (Splats, OptimizerState) {
        let mut engine = with_splats(make, &scene.splats);
        for step in 1..=6 {
            step_loss(engine.as_mut(), &scene, &photo, step);
            if step == 3 {
                engine.densify(&growing()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let (splats, state) = run(makes[0]);
    assert!(splats.len() > scene.splats.len(), "nothing grew");
    for (i, make) in makes.iter().enumerate().skip(1) {
        let (other, other_state) = run(make);
        assert!(splats == other, "run {i} gives other splats");
        assert!(state == other_state, "run {i} gives other moments");
    }
}

/// Checks steps that learn models of views, and a densification round after the third. One run is downloaded after
/// three steps and resumed in another engine; whole runs use an engine of each of `makes`. Splats and states are
/// bit-identical. `settings` makes the settings of a step; steps take the views in turn. Returns the last state.
pub(crate) fn learnt_models_repeat(
    makes: &[Make<'_>],
    scene: &TestScene,
    views: &[TrainView],
    settings: impl Fn(u32) -> StepSettings,
) -> OptimizerState {
    let steps = |engine: &mut dyn Engine, steps: RangeInclusive<u32>| {
        for step in steps {
            let view = ViewId(step as usize % views.len());
            engine.step(view, &settings(step)).unwrap();
            if step == 3 {
                engine.densify(&growing()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let (mut first, mut second) = (makes[0](), makes[1]());
    first.upload(&scene.splats, None).unwrap();
    first.add_views(views.to_vec()).unwrap();
    let (splats, state) = steps(first.as_mut(), 1..=3);
    second.upload(&splats, Some(&state)).unwrap();
    second.add_views(views.to_vec()).unwrap();
    let (splats, state) = steps(second.as_mut(), 4..=6);
    let mut engines = vec![first, second];
    for make in &makes[2..] {
        let mut engine = make();
        engine.add_views(views.to_vec()).unwrap();
        engines.push(engine);
    }
    for (i, engine) in engines.iter_mut().enumerate() {
        engine.upload(&scene.splats, None).unwrap();
        let (other, other_state) = steps(engine.as_mut(), 1..=6);
        assert!(splats == other, "engine {i}: other splats");
        assert!(state == other_state, "engine {i}: other state");
    }
    state
}
