//! A training step against the reference: loss and its gradient through the whole chain, Adam,
//! density statistics; and that results do not depend on the number of threads.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::scenes::{self, Random, TestScene};
use dapple_engine::{
    Adam, DensifyPlan, Engine, LearningRates, Report, StepSettings, TrainView, compare, reference,
};
use dapple_scene::{Photo, Splats};
use std::sync::Arc;

const TOLERANCE: f64 = 1e-4;
const SSIM_WEIGHT: f32 = 0.2;

fn engine(threads: usize, splats: &Splats) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions {
        threads: Some(threads),
    })
    .unwrap();
    engine.upload(splats, None).unwrap();
    engine
}

/// Noise: a photo that differs from any render in every pixel.
fn photo(scene: &TestScene) -> Photo {
    let mut random = Random::new(11);
    let n = scene.camera.width as usize * scene.camera.height as usize;
    let rgb = (0..3 * n)
        .map(|_| random.uniform(0.0, 255.0) as u8)
        .collect();
    Photo::from_rgb(scene.camera.width, scene.camera.height, rgb)
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

fn settings(scene: &TestScene, step: u32) -> StepSettings {
    StepSettings {
        step,
        render: scene.settings,
        learning_rates: LearningRates {
            means: 1e-3,
            scales: 2e-3,
            quats: 3e-3,
            opacities: 4e-3,
            sh0: 5e-3,
            sh_rest: 6e-3,
        },
        adam: Adam::default(),
        ssim_weight: SSIM_WEIGHT,
        accumulate_density: true,
    }
}

fn step_loss(engine: &mut CpuEngine, scene: &TestScene, photo: &Photo, step: u32) -> f32 {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo.clone()),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    engine.step(id, &settings(scene, step)).unwrap();
    match engine.poll().unwrap().pop() {
        Some(Report::Step(report)) => report.loss,
        other => panic!("no report of a step but {other:?}"),
    }
}

fn check_chain(scene: &TestScene, photo: &Photo, what: &str) {
    let mut engine = engine(2, &scene.splats);
    let loss = step_loss(&mut engine, scene, photo, 1);
    let (_, state) = engine.download().unwrap();

    let image = reference::render(&scene.splats, &scene.camera, &scene.settings).unwrap();
    let (width, height) = (photo.width as usize, photo.height as usize);
    let (expected_loss, d_rgb) = reference::loss(
        &image.rgb,
        &reference::photo_target(photo, scene.settings.background),
        width,
        height,
        reference::photo_mask(photo).as_deref(),
        SSIM_WEIGHT.into(),
    );
    let expected =
        reference::gradients(&scene.splats, &scene.camera, &scene.settings, &d_rgb, None).unwrap();
    let relative = (f64::from(loss) / expected_loss - 1.0).abs();
    assert!(
        relative < 1e-5,
        "{what}: loss {loss} against {expected_loss}"
    );

    // After one step the first moments are 0.1 times the gradient.
    let m = &state.first_moments;
    let flat = |rows: &[[f32; 3]]| {
        rows.iter()
            .flatten()
            .map(|&v| f64::from(v) * 10.0)
            .collect()
    };
    let mut tensors: Vec<(&str, Vec<f64>)> = vec![
        ("means", flat(&m.means)),
        ("scales", flat(&m.scales)),
        ("sh0", flat(&m.sh0)),
    ];
    tensors.push((
        "quats",
        m.quats
            .iter()
            .flatten()
            .map(|&v| f64::from(v) * 10.0)
            .collect(),
    ));
    tensors.push((
        "opacities",
        m.opacities.iter().map(|&v| f64::from(v) * 10.0).collect(),
    ));
    tensors.push((
        "sh_rest",
        m.sh_rest.iter().map(|&v| f64::from(v) * 10.0).collect(),
    ));
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

    // Density statistics: the screen-space gradient with half the image as the unit.
    let half = [f64::from(photo.width) / 2.0, f64::from(photo.height) / 2.0];
    let norms: Vec<f64> = expected
        .means2d
        .iter()
        .map(|g| (g[0] * half[0]).hypot(g[1] * half[1]))
        .collect();
    let sums: Vec<f64> = state.gradient_sums.iter().map(|&v| v.into()).collect();
    let error = compare::relative_l2(&sums, &norms);
    assert!(error < TOLERANCE, "{what} density: {error:.2e}");
}

#[test]
fn loss_and_gradient_match_the_reference() {
    for name in ["random_sh3", "off_centre", "background"] {
        let scene = scenes::by_name(name).unwrap_or_else(|| panic!("no scene {name}"));
        check_chain(&scene, &photo(&scene), name);
    }
}

#[test]
fn masked_pixels_do_not_count() {
    let scene = scenes::by_name("random_sh3").unwrap();
    let mut masked = photo(&scene);
    masked.mask = plane(
        &scene,
        |x, y| if (x / 9 + y / 7) % 3 == 0 { 0 } else { 255 },
    );
    check_chain(&scene, &masked, "masked");
}

#[test]
fn transparent_photos_stand_before_the_background() {
    let scene = scenes::by_name("background").unwrap();
    let mut transparent = photo(&scene);
    transparent.alpha = plane(&scene, |x, y| (x * 5 + y * 3) as u8);
    check_chain(&scene, &transparent, "alpha");
}

#[test]
fn images_smaller_than_the_window_have_l1_alone() {
    let scene = scenes::by_name("tiny_image").unwrap();
    check_chain(&scene, &photo(&scene), "tiny");
}

#[test]
fn adam_takes_the_textbook_step() {
    let scene = scenes::by_name("random_sh1").unwrap();
    let mut engine = engine(2, &scene.splats);
    let photo = photo(&scene);
    let (mut before, mut state) = engine.download().unwrap();
    for step in 1..=3 {
        step_loss(&mut engine, &scene, &photo, step);
        let (after, new_state) = engine.download().unwrap();
        for i in 0..after.len() {
            let beta1 = f64::from(Adam::default().beta1);
            let m0 = f64::from(state.first_moments.opacities[i]);
            let v0 = f64::from(state.second_moments.opacities[i]);
            // What gradient the engine used follows from its first moment.
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

#[test]
fn threads_change_nothing() {
    let scene = scenes::by_name("crowd").unwrap();
    let photo = photo(&scene);
    let run = |threads: usize| {
        let mut engine = engine(threads, &scene.splats);
        for step in 1..=6 {
            step_loss(&mut engine, &scene, &photo, step);
            if step == 3 {
                engine.densify(&plan()).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let (splats, state) = run(1);
    assert!(splats.len() > scene.splats.len(), "nothing grew");
    for threads in [2, 3, 5] {
        let (other, other_state) = run(threads);
        assert!(splats == other, "{threads} threads give other splats");
        assert!(state == other_state, "{threads} threads give other moments");
    }
}

fn plan() -> DensifyPlan {
    DensifyPlan {
        step: 100,
        seed: 3,
        grow_gradient: Some(1e-6),
        split_scale: 0.02,
        prune_opacity: Some(0.005),
        prune_scale: None,
        max_gaussians: usize::MAX,
        reset_opacity: None,
    }
}

/// An engine whose Gaussian i has a mean screen-space gradient of `gradients[i]`.
fn with_gradients(splats: &Splats, gradients: &[f32]) -> CpuEngine {
    let mut engine = engine(1, splats);
    let (_, mut state) = engine.download().unwrap();
    state.gradient_sums = gradients.iter().map(|g| g * 4.0).collect();
    state.visible_counts = vec![4.0; gradients.len()];
    state.first_moments.opacities = vec![1.0; gradients.len()];
    engine.upload(splats, Some(&state)).unwrap();
    engine
}

/// Four Gaussians on the x axis with axes of 0.01, 0.05, 0.01, 0.05.
fn four() -> Splats {
    let small = [0.01f32.ln(); 3];
    let large = [0.05f32.ln(), 0.01f32.ln(), 0.02f32.ln()];
    Splats {
        means: (0..4).map(|i| [i as f32, 0.0, 0.0]).collect(),
        scales: vec![small, large, small, large],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; 4],
        opacities: vec![0.0, 1.0, 2.0, 3.0],
        sh0: vec![[0.1; 3]; 4],
        sh_rest: vec![],
        sh_degree: 0,
    }
}

fn densified(
    gradients: [f32; 4],
    plan: &DensifyPlan,
) -> (Splats, dapple_engine::DensifyReport, Vec<f32>) {
    let mut engine = with_gradients(&four(), &gradients);
    engine.densify(plan).unwrap();
    let Some(Report::Densify(report)) = engine.poll().unwrap().pop() else {
        panic!("no report of a densification");
    };
    let (splats, state) = engine.download().unwrap();
    assert_eq!(splats.len() as u64, report.total);
    // Statistics start anew once they have been acted upon, and only then.
    let cleared = state.gradient_sums.iter().all(|&v| v == 0.0);
    assert_eq!(
        cleared,
        plan.grow_gradient.is_some() || gradients == [0.0; 4]
    );
    (splats, report, state.first_moments.opacities)
}

#[test]
fn small_are_cloned_and_large_are_split() {
    let plan = DensifyPlan {
        grow_gradient: Some(2e-4),
        ..plan()
    };
    let (splats, report, moments) = densified([3e-4, 3e-4, 1e-4, 1e-4], &plan);
    assert_eq!((report.cloned, report.split, report.pruned), (1, 1, 0));
    // Survivors 0, 2, 3, the clone of 0, two children of 1.
    assert_eq!(
        splats.means[..4],
        [0.0, 2.0, 3.0, 0.0].map(|x| [x, 0.0, 0.0])
    );
    assert_eq!(moments, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    for child in 4..6 {
        let away = splats.means[child][0] - 1.0;
        assert!(
            away != 0.0 && away.abs() < 0.3,
            "child at {away} of its parent"
        );
        assert!((splats.scales[child][0] - (0.05f32 / 1.6).ln()).abs() < 1e-5);
    }
    assert_ne!(splats.means[4], splats.means[5]);
}

#[test]
fn the_budget_goes_to_the_largest_gradients() {
    let plan = DensifyPlan {
        grow_gradient: Some(2e-4),
        max_gaussians: 5,
        ..plan()
    };
    let (splats, report, _) = densified([3e-4, 5e-4, 9e-4, 4e-4], &plan);
    assert_eq!((report.cloned, report.split, report.refused), (1, 0, 3));
    assert_eq!(splats.means[4], [2.0, 0.0, 0.0]);
}

#[test]
fn the_transparent_the_large_and_the_broken_are_pruned() {
    let plan = DensifyPlan {
        grow_gradient: None,
        prune_opacity: Some(0.6),
        prune_scale: Some(0.03),
        ..plan()
    };
    // Opacities 0.5, 0.73, 0.88, 0.95; 1 and 3 are large.
    let (splats, report, _) = densified([1.0; 4], &plan);
    assert_eq!(report.pruned, 3);
    assert_eq!(splats.means, [[2.0, 0.0, 0.0]]);
}

#[test]
fn a_reset_clamps_opacities_and_clears_their_moments() {
    let plan = DensifyPlan {
        grow_gradient: None,
        reset_opacity: Some(0.01),
        ..plan()
    };
    let (splats, _, moments) = densified([0.0; 4], &plan);
    for opacity in splats.opacities {
        let value = 1.0 / (1.0 + (-opacity).exp());
        assert!((value - 0.01).abs() < 1e-5, "{value}");
    }
    assert_eq!(moments, [0.0; 4]);
}
