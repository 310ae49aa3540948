//! Batches of steps against the reference: the Gaussians move once, by the mean gradient of the photos, with the numbers of
//! [`dapple_engine::GaussianUpdate`]; and bit-identical results of repeated runs.

use super::engines::{Make, growing, last_loss, with_splats};
use super::training::{
    self, check_moments, density_norms, settings, steps_repeat_themselves, truth,
};
use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::scenes::{self, TestScene};
use dapple_engine::{
    Adam, AppearanceSettings, Batch, Engine, EngineExt, Gradients, LearningRates, LossTerm,
    OptimizerState, PoseRates, StepSettings, TrainView, ViewId,
};
use dapple_scene::{Photo, Splats};
use glam::DVec3;

/// Steps of the batches.
const SIZE: u32 = 3;

/// Checks a batch: nothing moves before its last step, the losses are those of the photos, moments are of the mean
/// gradient, Gaussians take Adam's step, and the density statistics count every photo. Engines of `makes` differ only in
/// settings that must not change the result.
pub fn batches_match_the_reference(makes: &[Make<'_>]) {
    for name in ["random_sh3", "off_centre", "lens_opencv", "panorama_seam"] {
        let scene = scenes::named(name);
        let views = views(&scene);
        check_batch(makes[0], &scene, &views);
        noise_comes_once(makes[0], &scene, &views);
        order_is_enforced(makes[0], &scene, &views);
    }
    for name in ["crowd", "lens_fisheye", "panorama_seam"] {
        let scene = scenes::named(name);
        steps_repeat_themselves(makes, &scene, &|engine, number| {
            if number == 1 {
                engine.add_views(views(&scene)).unwrap();
            }
            let view = ViewId((number as usize * 2) % SIZE as usize);
            engine.step(view, &with_features(&scene, number)).unwrap();
        });
    }
}

/// Returns three views of a scene: other photos, seen from other places.
fn views(scene: &TestScene) -> Vec<TrainView> {
    training::views(scene, SIZE, DVec3::new(0.03, -0.02, 0.01))
}

/// Returns settings of step `number` in batches of this size, with a term of the loss over Gaussians.
fn of_batch(scene: &TestScene, number: u32, size: u32) -> StepSettings {
    let plain = settings(scene, number);
    StepSettings {
        batch: Batch {
            index: (number - 1) % size,
            size,
        },
        losses: plain.losses.with(LossTerm::Opacity, 0.01),
        ..plain
    }
}

/// Returns settings with features that have numbers of their own for views.
fn with_features(scene: &TestScene, number: u32) -> StepSettings {
    let mut settings = of_batch(scene, number, 2);
    settings.losses = settings.losses.with(LossTerm::Normals, 0.05);
    settings.absolute_density = true;
    settings.features.noise.scale = 1e-3;
    settings.features.dropout.rate = 0.1;
    settings.features.poses = PoseRates {
        rotation: 2e-3,
        translation: 3e-3,
    };
    settings.features.appearance = Some(AppearanceSettings {
        cells: [4, 3, 2],
        rate: 1e-3,
        smoothness: 10.0,
        identity: 0.1,
    });
    settings
}

fn check_batch(make: Make<'_>, scene: &TestScene, views: &[TrainView]) {
    let name = scene.name;
    let mut engine = with_splats(make, &scene.splats);
    engine.add_views(views.to_vec()).unwrap();
    let mut expected = Expected::of(scene);
    // The first batch begins without moments, the second with those of the first.
    for batch in 0..2 {
        let (before, state) = engine.download().unwrap();
        for index in 0..SIZE {
            let number = batch * SIZE + index + 1;
            let settings = of_batch(scene, number, SIZE);
            engine.step(ViewId(index as usize), &settings).unwrap();
            let loss = f64::from(last_loss(engine.as_mut()));
            let of_photo = expected.add(&before, scene, &views[index as usize]);
            let relative = (loss / of_photo - 1.0).abs();
            assert!(relative < 1e-5, "{name}: loss {loss} against {of_photo}");
            if index + 1 < SIZE {
                assert!(engine.splats().unwrap() == before, "{name}: moved early");
            }
        }
        let (after, new_state) = engine.download().unwrap();
        let mean = expected.take_mean(&before);
        if batch == 0 {
            check_first(&new_state, &mean, name);
        }
        check_step([&before, &after], [&state, &new_state], &mean, batch + 1);
        check_density(&new_state, &expected, name);
    }
}

/// Sums of the reference over the photos of a batch, and density statistics over all.
struct Expected {
    sum: Option<Gradients<f64>>,
    norms: Vec<f64>,
    photos: u32,
}

impl Expected {
    fn of(scene: &TestScene) -> Self {
        Self {
            sum: None,
            norms: vec![0.0; scene.splats.len()],
            photos: 0,
        }
    }

    /// Adds a photo. Returns its loss, without terms over Gaussians.
    fn add(&mut self, splats: &Splats, scene: &TestScene, view: &TrainView) -> f64 {
        let photo: &Photo = &view.photo;
        let (loss, own) = truth(splats, &view.camera, &scene.settings, photo);
        let norms = density_norms(&own, photo);
        self.photos += 1;
        for (sum, norm) in self.norms.iter_mut().zip(norms) {
            *sum += norm;
        }
        self.sum = Some(match self.sum.take() {
            None => own,
            Some(sum) => combined(&sum, &own, |a, b| a + b),
        });
        loss
    }

    /// Returns the mean gradient of the photos since the last call, with that of the term over Gaussians.
    fn take_mean(&mut self, splats: &Splats) -> Gradients<f64> {
        let sum = self.sum.take().unwrap();
        let mut mean = combined(&sum, &sum, |a, _| a / f64::from(SIZE));
        let n = splats.len() as f64;
        for (gradient, &logit) in mean.opacities.iter_mut().zip(&splats.opacities) {
            let opacity = 1.0 / (1.0 + f64::from(-logit).exp());
            *gradient += f64::from(0.01f32) / n * opacity * (1.0 - opacity);
        }
        mean
    }
}

/// Returns the gradients that `of` makes of two numbers each.
fn combined(
    a: &Gradients<f64>,
    b: &Gradients<f64>,
    of: impl Fn(f64, f64) -> f64 + Copy,
) -> Gradients<f64> {
    fn rows<const K: usize>(
        a: &[[f64; K]],
        b: &[[f64; K]],
        of: impl Fn(f64, f64) -> f64,
    ) -> Vec<[f64; K]> {
        let both = a.iter().zip(b);
        both.map(|(a, b)| std::array::from_fn(|k| of(a[k], b[k])))
            .collect()
    }
    let flat = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect();
    Gradients {
        absolute2d: Vec::new(),
        means: rows(&a.means, &b.means, of),
        scales: rows(&a.scales, &b.scales, of),
        quats: rows(&a.quats, &b.quats, of),
        opacities: flat(&a.opacities, &b.opacities),
        sh0: rows(&a.sh0, &b.sh0, of),
        sh_rest: flat(&a.sh_rest, &b.sh_rest),
        means2d: rows(&a.means2d, &b.means2d, of),
        pose: a.pose,
    }
}

/// Checks the moments of a first batch: the mean gradient, times the part that Adam takes of it.
fn check_first(state: &OptimizerState, mean: &Gradients<f64>, name: &str) {
    let part = 1.0 - f64::from(Adam::default().beta1).powi(SIZE as i32);
    // `check_moments` expects a tenth of the gradient.
    let scaled = combined(mean, mean, |a, _| a * part * 10.0);
    check_moments(&state.first_moments, &scaled, name);
    let part = 1.0 - f64::from(Adam::default().beta2).powi(SIZE as i32);
    let seconds = state.second_moments.opacities.iter();
    let roots: Vec<f64> = seconds.map(|&v| (f64::from(v) / part).sqrt()).collect();
    let sizes: Vec<f64> = mean.opacities.iter().map(|g| g.abs()).collect();
    let error = compare::relative_l2(&roots, &sizes);
    assert!(error < TOLERANCE, "{name} second moments: {error:.2e}");
}

/// Checks the step of all opacities, from the moments that the engine had before.
fn check_step(
    [before, after]: [&Splats; 2],
    [state, new_state]: [&OptimizerState; 2],
    mean: &Gradients<f64>,
    number: u32,
) {
    let size = f64::from(SIZE);
    let adam = Adam::default();
    let faster = |beta: f32| f64::from(beta).powf(size) as f32;
    let adam = Adam {
        beta1: faster(adam.beta1),
        beta2: faster(adam.beta2),
        epsilon: (f64::from(adam.epsilon) / size.sqrt()) as f32,
    };
    let (beta1, rate) = (f64::from(adam.beta1), 4e-3 * size.sqrt());
    for i in 0..after.len() {
        let m0 = f64::from(state.first_moments.opacities[i]);
        let v0 = f64::from(state.second_moments.opacities[i]);
        // The engine's own gradient, by its first moment: small ones are off by the tolerance of gradients.
        let m = f64::from(new_state.first_moments.opacities[i]);
        let gradient = (m - beta1 * m0) / (1.0 - beta1);
        assert!((gradient - mean.opacities[i]).abs() < 1e-3 * mean.opacities[i].abs() + 1e-7);
        let expected = reference::adam(
            [before.opacities[i].into(), m0, v0],
            gradient,
            rate,
            &adam,
            number,
        );
        let error = (f64::from(after.opacities[i]) - expected[0]).abs();
        assert!(
            error < 1e-5,
            "batch {number}, Gaussian {i}: off by {error:e}"
        );
    }
}

fn check_density(state: &OptimizerState, expected: &Expected, name: &str) {
    let sums: Vec<f64> = state.gradient_sums.iter().map(|&v| v.into()).collect();
    let error = compare::relative_l2(&sums, &expected.norms);
    assert!(error < TOLERANCE, "{name} density: {error:.2e}");
    let most = state.visible_counts.iter().copied().fold(0.0, f32::max);
    assert_eq!(most, expected.photos as f32, "{name}: photos");
}

/// Noise acts in the last step of a batch alone, with the variance of all its steps.
fn noise_comes_once(make: Make<'_>, scene: &TestScene, views: &[TrainView]) {
    let still = |number: u32, size: u32, scale: f32| {
        let mut settings = of_batch(scene, number, size);
        settings.learning_rates = LearningRates::NONE;
        settings.features.noise.scale = scale;
        settings
    };
    let run = |steps: &[StepSettings]| {
        let mut splats = scene.splats.clone();
        splats.opacities.fill(-4.0);
        let mut engine = with_splats(make, &splats);
        engine.add_views(views.to_vec()).unwrap();
        for settings in steps {
            engine.step(ViewId(0), settings).unwrap();
        }
        engine.splats().unwrap()
    };
    let of_four: Vec<StepSettings> = (1..=4).map(|number| still(number, 4, 1e-2)).collect();
    let alone = run(&[still(4, 1, 2e-2)]);
    assert!(alone.means != scene.splats.means, "no noise");
    assert!(run(&of_four) == alone, "{}: other noise", scene.name);
}

/// Refuses a round or another batch between the steps of a batch; an upload drops the batch.
fn order_is_enforced(make: Make<'_>, scene: &TestScene, views: &[TrainView]) {
    let mut engine = with_splats(make, &scene.splats);
    engine.add_views(views.to_vec()).unwrap();
    engine.step(ViewId(0), &of_batch(scene, 1, SIZE)).unwrap();
    assert!(engine.densify(&growing()).is_err());
    assert!(engine.step(ViewId(0), &of_batch(scene, 3, SIZE)).is_err());
    engine.step(ViewId(1), &of_batch(scene, 2, SIZE)).unwrap();
    engine.upload(&scene.splats, None).unwrap();
    let whole = |engine: &mut dyn Engine| {
        for number in 1..=SIZE {
            engine
                .step(ViewId(0), &of_batch(scene, number, SIZE))
                .unwrap();
        }
        engine.download().unwrap()
    };
    let after_a_part = whole(engine.as_mut());
    let mut other = with_splats(make, &scene.splats);
    other.add_views(views.to_vec()).unwrap();
    assert!(
        whole(other.as_mut()) == after_a_part,
        "sums of a dropped batch stayed"
    );
}
