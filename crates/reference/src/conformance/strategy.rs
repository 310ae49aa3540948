//! Functions of an engine for other strategies than the default: relocation, noise, regularisers.

use super::engines::{Make, growing, last_report, with_splats};
use super::training::{photo, settings};
use crate as reference;
use crate::Gaussian;
use crate::compare::{self, TOLERANCE};
use crate::scenes::{self, TestScene};
use dapple_engine::features::noise;
use dapple_engine::{
    DensifyPlan, Engine, EngineExt, LearningRates, LossTerm, LossWeights, OptimizerState,
    Relocation, Report, StepFeatures, StepSettings, TrainView, relocation,
};
use dapple_scene::Splats;
use std::sync::Arc;

/// Checks that a relocation round matches the reference, draw by draw. The cap allows all, some or
/// none of the new Gaussians; no Gaussian is dead, all are, or some are non-finite.
pub fn relocation_follows_the_plan(make: Make<'_>) {
    let mut engine = make();
    let scene = scenes::named("crowd");
    let n = scene.splats.len();
    let mixed = opacities(&scene.splats, |i| [-9.0, -1.0, 3.0, -5.2, 0.5][i % 5]);
    let mut broken = mixed.clone();
    broken.means[1] = [f32::NAN, 0.0, 0.0];
    broken.sh0[2] = [0.0, f32::INFINITY, 0.0];
    for (what, splats, room) in [
        ("all", &mixed, usize::MAX),
        ("some", &mixed, n + 3),
        ("none", &mixed, n),
        ("over", &mixed, n / 2),
        ("broken", &broken, usize::MAX),
        ("living", &opacities(&mixed, |_| 1.0), usize::MAX),
        ("dead", &opacities(&mixed, |_| -9.0), usize::MAX),
        (
            "one",
            &opacities(&mixed, |i| if i == 7 { 2.0 } else { -9.0 }),
            usize::MAX,
        ),
    ] {
        check_round(engine.as_mut(), splats, &plan(room), what);
    }
    // Small weights: every few hundredth draw falls on the border between two Gaussians.
    let faint = opacities(&mixed, |i| if i % 3 == 0 { -9.0 } else { -5.25 });
    for step in 100..108 {
        let plan = DensifyPlan {
            step,
            ..plan(usize::MAX)
        };
        check_round(
            engine.as_mut(),
            &faint,
            &plan,
            &format!("faint, step {step}"),
        );
    }
}

pub(super) fn opacities(splats: &Splats, logit: impl Fn(usize) -> f32) -> Splats {
    Splats {
        opacities: (0..splats.len()).map(logit).collect(),
        ..splats.clone()
    }
}

/// Returns the plan of a relocation round.
pub(super) fn plan(max_gaussians: usize) -> DensifyPlan {
    DensifyPlan {
        grow_gradient: None,
        prune_opacity: None,
        max_gaussians,
        relocate: Some(Relocation {
            dead_opacity: 0.005,
            add_permille: 50,
        }),
        ..growing()
    }
}

pub(super) fn check_round(
    engine: &mut dyn Engine,
    splats: &Splats,
    plan: &DensifyPlan,
    what: &str,
) {
    let n = splats.len();
    let max_gaussians = plan.max_gaussians;
    let relocation = plan.relocate.unwrap();
    let ones = Splats {
        opacities: vec![1.0; n],
        means: vec![[1.0; 3]; n],
        sh_rest: vec![1.0; splats.sh_rest.len()],
        ..splats.clone()
    };
    let state = OptimizerState {
        first_moments: ones.clone(),
        second_moments: ones,
        gradient_sums: vec![0.0; n],
        visible_counts: vec![0.0; n],
        ..OptimizerState::default()
    };
    engine.upload(splats, Some(&state)).unwrap();
    engine.densify(plan).unwrap();
    let Report::Densify(report) = last_report(engine) else {
        panic!("no report of a round");
    };
    let (after, state) = engine.download().unwrap();
    let round = reference::relocate(splats, plan, &relocation);
    let counts = (report.relocated, report.added, report.total);
    let expected = (round.relocated, round.added, round.source.len());
    let expected = (expected.0 as u64, expected.1 as u64, expected.2 as u64);
    assert_eq!(counts, expected, "{what}");
    assert_eq!((report.cloned, report.split, report.pruned), (0, 0, 0));
    assert_eq!(after.len() as u64, report.total, "{what}");
    assert!(
        after.len() <= max_gaussians.max(n),
        "{what}: over the budget"
    );
    let stride = splats.sh_rest_stride();
    for (i, &from) in round.source.iter().enumerate() {
        let bits = |v: [f32; 3]| v.map(f32::to_bits);
        let what = format!("{what}, Gaussian {i} from {from}");
        assert_eq!(bits(after.means[i]), bits(splats.means[from]), "{what}");
        assert_eq!(bits(after.sh0[i]), bits(splats.sh0[from]), "{what}");
        assert_eq!(after.quats[i], splats.quats[from], "{what}");
        let rest = |s: &Splats, i: usize| s.sh_rest[i * stride..(i + 1) * stride].to_vec();
        assert_eq!(rest(&after, i), rest(splats, from), "{what}");
        let moments = [&state.first_moments, &state.second_moments];
        let left = moments.map(|m| (m.opacities[i], m.means[i], rest(m, i)));
        let copies = round.copies[i];
        let kept = if copies == 1 { 1.0 } else { 0.0 };
        assert_eq!(left[0], (kept, [kept; 3], vec![kept; stride]), "{what}");
        assert_eq!(left[0], left[1], "{what}");
        check_copy(&after, i, (splats, from), copies, &what);
    }
}

/// Checks opacity and scales of one of `copies`.
fn check_copy(after: &Splats, i: usize, (before, from): (&Splats, usize), copies: u32, what: &str) {
    let opacity = 1.0 / (1.0 + (-f64::from(before.opacities[from])).exp());
    // Eq. 9 itself cancels for many copies.
    let (logit, ln_ratio) = if copies <= 30 {
        let (each, ratio) = reference::relocated(opacity, copies);
        ((each / (1.0 - each)).ln(), ratio.ln())
    } else {
        let (logit, ln_ratio) = relocation::copy_of(before.opacities[from], copies);
        (f64::from(logit), f64::from(ln_ratio))
    };
    if copies == 1 {
        assert_eq!(after.opacities[i], before.opacities[from], "{what}");
        let bits = |v: [f32; 3]| v.map(f32::to_bits);
        assert_eq!(bits(after.scales[i]), bits(before.scales[from]), "{what}");
        return;
    }
    let limit = f64::from(plan(0).relocate.unwrap().dead_logit());
    let error = f64::from(after.opacities[i]) - logit.max(limit);
    assert!(error.abs() < 1e-5, "{what}: opacity off by {error:e}");
    for k in 0..3 {
        let expected = f64::from(before.scales[from][k]) + ln_ratio;
        let error = f64::from(after.scales[i][k]) - expected;
        assert!(error.abs() < 1e-5, "{what}: scale off by {error:e}");
    }
}

/// Executes one step of `engine` on the scene's view.
fn step(engine: &mut dyn Engine, scene: &TestScene, settings: &StepSettings) {
    let view = TrainView {
        camera: scene.camera,
        photo: Arc::new(photo(scene)),
    };
    let id = engine.add_views(vec![view]).unwrap()[0];
    engine.step(id, settings).unwrap();
}

/// Checks noise and regularisers of a step against the reference, for visible and invisible
/// Gaussians.
pub fn extras_match_the_reference(make: Make<'_>) {
    for name in ["random_sh3", "out_of_sight", "crowd", "lens_thin_prism"] {
        let scene = scenes::named(name);
        check_noise(make, &scene);
        check_regularisers(make, &scene);
        check_moved_only(make, &scene);
    }
}

/// Returns the numbers of a step with noise of this scale.
fn noisy(scale: f32) -> StepFeatures {
    StepFeatures {
        noise: noise::Step { scale },
        ..StepFeatures::default()
    }
}

fn check_noise(make: Make<'_>, scene: &TestScene) {
    // From almost transparent to opaque.
    let splats = opacities(&scene.splats, |i| -8.0 + (i % 10) as f32);
    let mut engine = with_splats(make, &splats);
    let settings = StepSettings {
        learning_rates: LearningRates::NONE,
        seed: 0x1_0000_0003,
        features: noisy(0.7),
        ..settings(scene, 12)
    };
    step(engine.as_mut(), scene, &settings);
    let (after, _) = engine.download().unwrap();
    let (mut moved, mut expected) = (Vec::new(), Vec::new());
    for (i, gaussian) in Gaussian::all(&splats).iter().enumerate() {
        let scale = settings.features.noise.scale.into();
        let by = reference::perturbation(gaussian, scale, settings.seed, 12, i as u32);
        let to = glam::DVec3::from(after.means[i].map(f64::from));
        // Rounding of a small step from a large number in f32 is not an error of the noise.
        let rounding = gaussian.mean.abs().max_element() * f64::from(f32::EPSILON);
        let error = (to - gaussian.mean - by).abs().max_element();
        assert!(
            error <= 1e-4 * by.length() + rounding,
            "{}, {i}: off by {error:e} of {by}",
            scene.name
        );
        moved.extend((to - gaussian.mean).to_array());
        expected.extend(by.to_array());
    }
    let error = compare::relative_l2(&moved, &expected);
    assert!(error < TOLERANCE, "{}: noise {error:.2e}", scene.name);
    assert_eq!(after.scales, splats.scales, "noise is for centres alone");
}

/// Checks each term separately, and all together.
fn check_regularisers(make: Make<'_>, scene: &TestScene) {
    let moments = |regularisers: &LossWeights| {
        let mut engine = with_splats(make, &scene.splats);
        let settings = settings(scene, 1);
        let weight = |term| settings.losses[term] + regularisers[term];
        let settings = StepSettings {
            losses: LossWeights::from_fn(weight),
            ..settings
        };
        step(engine.as_mut(), scene, &settings);
        engine.download().unwrap().1.first_moments
    };
    let plain = moments(&LossWeights::default());
    let each = reference::REGULARISERS.iter().enumerate();
    let each = each.map(|(i, term)| (term.term(), 30.0 + 40.0 * i as f32));
    let mut cases: Vec<LossWeights> = each
        .clone()
        .map(|(term, weight)| LossWeights::default().with(term, weight))
        .collect();
    cases.push(each.fold(LossWeights::default(), |all, (term, weight)| {
        all.with(term, weight)
    }));
    for weights in cases {
        let with = moments(&weights);
        let what = format!("{}, {weights:?}", scene.name);
        assert_eq!(plain.means, with.means, "{what}");
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        let all = Gaussian::all(&scene.splats);
        for (i, gaussian) in all.iter().enumerate() {
            let slope = reference::regularisers_backward(gaussian, all.len(), &weights);
            // After one step the first moments are 0.1 times the gradient.
            let by = |a: f32, b: f32| 10.0 * (f64::from(a) - f64::from(b));
            found.push(by(with.opacities[i], plain.opacities[i]));
            found.extend((0..3).map(|k| by(with.scales[i][k], plain.scales[i][k])));
            found.extend((0..4).map(|k| by(with.quats[i][k], plain.quats[i][k])));
            expected.push(slope.opacity);
            expected.extend(slope.scale);
            expected.extend(slope.quat);
        }
        let error = compare::relative_l2(&found, &expected);
        assert!(error < TOLERANCE, "{what}: {error:.2e}");
    }
}

/// Checks regularisers that act only on moved Gaussians: in a step with a photo, and in one that shows none.
fn check_moved_only(make: Make<'_>, scene: &TestScene) {
    let weights = LossWeights::default()
        .with(LossTerm::Opacity, 40.0)
        .with(LossTerm::Scale, 40.0);
    let start = || with_splats(make, &scene.splats);
    let run = |engine: &mut dyn Engine, number: u32, weights: &LossWeights, near: f32| {
        let mut settings = settings(scene, number);
        settings.losses = LossWeights::from_fn(|term| settings.losses[term] + weights[term]);
        settings.render.near = near;
        settings.features.regularise.moved_only = true;
        let before = engine.download().unwrap();
        step(engine, scene, &settings);
        (before, engine.download().unwrap().1.first_moments)
    };
    let near = settings(scene, 1).render.near;
    let mut engine = start();
    let (_, plain) = run(engine.as_mut(), 1, &LossWeights::default(), near);
    let is_moved: Vec<bool> = plain.opacities.iter().map(|m| *m != 0.0).collect();
    let moved = is_moved.iter().filter(|moved| **moved).count();
    assert!(
        0 < moved && moved < is_moved.len(),
        "{}: {moved}",
        scene.name
    );

    // A step keeps 0.9 of a first moment and adds 0.1 times the gradient.
    let (shown, first) = run(start().as_mut(), 1, &weights, near);
    let (hidden, second) = run(engine.as_mut(), 2, &weights, 1e9);
    let kept = &hidden.1.first_moments;
    for (what, splats, before, keeps, after) in [
        ("photo", &shown.0, &plain, 10.0, &first),
        ("no photo", &hidden.0, kept, 9.0, &second),
    ] {
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        let all = Gaussian::all(splats);
        for (i, gaussian) in all.iter().enumerate() {
            let by = |after: f32, before: f32| 10.0 * f64::from(after) - keeps * f64::from(before);
            let slope = reference::regularisers_backward(gaussian, all.len(), &weights);
            found.push(by(after.opacities[i], before.opacities[i]));
            found.extend((0..3).map(|k| by(after.scales[i][k], before.scales[i][k])));
            let share = f64::from(u8::from(is_moved[i]));
            expected.push(share * slope.opacity);
            expected.extend(slope.scale.map(|slope| share * slope));
        }
        let error = compare::relative_l2(&found, &expected);
        assert!(error < TOLERANCE, "{}, {what}: {error:.2e}", scene.name);
    }
}

/// Checks that steps with noise and relocation rounds are bit-identical with an engine of each of
/// `makes`.
pub fn mcmc_repeats_itself(makes: &[Make<'_>]) {
    let scene = scenes::named("crowd");
    let start = opacities(&scene.splats, |i| [-9.0, -1.0, 3.0][i % 3]);
    let run = |make: Make<'_>| -> (Splats, OptimizerState) {
        let mut engine = with_splats(make, &start);
        for number in 1..=6 {
            let settings = StepSettings {
                seed: 3,
                features: noisy(0.01),
                losses: LossWeights::default()
                    .with(LossTerm::Ssim, 0.2)
                    .with(LossTerm::Opacity, 0.01)
                    .with(LossTerm::Scale, 0.01),
                ..settings(&scene, number)
            };
            step(engine.as_mut(), &scene, &settings);
            if number % 3 == 0 {
                engine.densify(&plan(usize::MAX)).unwrap();
            }
        }
        engine.download().unwrap()
    };
    let (splats, state) = run(makes[0]);
    assert!(splats.len() > start.len(), "nothing was added");
    for (i, make) in makes.iter().enumerate().skip(1) {
        let (other, other_state) = run(make);
        assert!(splats == other, "run {i} gives other splats");
        assert!(state == other_state, "run {i} gives other moments");
    }
}
