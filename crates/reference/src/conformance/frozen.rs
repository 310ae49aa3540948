//! Frozen Gaussians ([`OptimizerState::frozen`]): steps and rounds leave them as they are, and move the others as they
//! would without them.

use super::engines::{Make, growing, last_report};
use super::strategy;
use super::training::{settings, views};
use crate::scenes::{self, TestScene};
use dapple_engine::{
    Batch, DensifyPlan, Engine, EngineExt, LossTerm, OptimizerState, Report, StepSettings, ViewId,
    ViewState,
};
use dapple_scene::Splats;
use dapple_scene::order::gather;
use glam::DVec3;

/// Frozen Gaussians: no multiple of what engines process together.
const FROZEN: usize = 37;

/// Splats with moments.
pub(super) type Model = (Splats, OptimizerState);

/// Checks steps, alone and in batches, with noise and regularisers, and rounds of both kinds.
pub fn frozen_gaussians_stay(make: Make<'_>) {
    let scene = scenes::named("crowd");
    assert!(scene.splats.len() > 2 * FROZEN);
    for size in [1, 2] {
        check_steps(make, &scene, size);
    }
    let relocation = strategy::plan(usize::MAX);
    let adaptive = DensifyPlan {
        reset_opacity: Some(0.2),
        prune_opacity: Some(0.005),
        ..growing()
    };
    let scarce = DensifyPlan {
        max_gaussians: scene.splats.len() + 3,
        ..adaptive
    };
    for plan in [relocation, adaptive, scarce] {
        check_rounds(make, &scene, &plan);
    }
}

/// Uploads splats of which the last `frozen` are frozen, and `sky` before them are of the sky. Returns what the engine then holds.
pub(super) fn upload(
    make: Make<'_>,
    scene: &TestScene,
    (sky, frozen): (usize, usize),
) -> (Box<dyn Engine>, Model) {
    let n = scene.splats.len();
    let splats = Splats {
        // Dead ones among both.
        opacities: (0..n).map(|i| [-9.0, -1.0, 3.0, 0.5][i % 4]).collect(),
        ..scene.splats.clone()
    };
    let ones = Splats {
        means: vec![[0.5; 3]; n],
        opacities: vec![0.25; n],
        ..dapple_engine::groups::zeros(n, splats.sh_degree)
    };
    let mut first_moments = ones.clone();
    let of_sky = n - frozen - sky..n - frozen;
    first_moments.means[of_sky.clone()].fill([0.0; 3]);
    first_moments.scales[of_sky.clone()].fill([0.0; 3]);
    first_moments.quats[of_sky].fill([0.0; 4]);
    let state = OptimizerState {
        first_moments,
        second_moments: ones,
        frozen,
        sky,
        ..OptimizerState::untrained(&splats, ViewState::default())
    };
    let mut engine = make();
    engine.upload(&splats, Some(&state)).unwrap();
    let held = engine.download().unwrap();
    assert_eq!((held.1.sky, held.1.frozen), (sky, frozen), "their numbers");
    let all = views(scene, 2, DVec3::new(0.03, -0.02, 0.01));
    engine.add_views(all).unwrap();
    (engine, held)
}

/// Returns settings of step `number` that move every Gaussian.
pub(super) fn moving(scene: &TestScene, number: u32, size: u32) -> StepSettings {
    let plain = settings(scene, number);
    let mut moving = StepSettings {
        batch: Batch {
            index: (number - 1) % size,
            size,
        },
        losses: plain.losses.with(LossTerm::Opacity, 0.01),
        ..plain
    };
    moving.features.noise.scale = 1e-2;
    moving
}

/// Returns the Gaussians `range` with their moments.
pub(super) fn part((splats, state): &Model, range: std::ops::Range<usize>) -> [Splats; 3] {
    let order: Vec<usize> = range.collect();
    [splats, &state.first_moments, &state.second_moments].map(|of| gather(of, &order))
}

fn check_steps(make: Make<'_>, scene: &TestScene, size: u32) {
    let n = scene.splats.len();
    let trained = n - FROZEN;
    let run = |frozen: usize| {
        let (mut engine, before) = upload(make, scene, (0, frozen));
        for number in 1..=size {
            let view = ViewId(number as usize - 1);
            engine.step(view, &moving(scene, number, size)).unwrap();
        }
        (before, engine.download().unwrap())
    };
    let (before, after) = run(FROZEN);
    let (_, free) = run(0);
    assert_eq!(after.1.frozen, FROZEN, "batches of {size}");
    assert!(
        part(&after, 0..trained) == part(&free, 0..trained),
        "batches of {size}: the others moved otherwise than without frozen ones"
    );
    assert!(
        part(&after, trained..n) == part(&before, trained..n),
        "batches of {size}: frozen ones moved"
    );
    assert!(
        part(&free, trained..n) != part(&before, trained..n),
        "batches of {size}: nothing would have moved them"
    );
}

fn check_rounds(make: Make<'_>, scene: &TestScene, plan: &DensifyPlan) {
    let n = scene.splats.len();
    let (mut engine, before) = upload(make, scene, (0, FROZEN));
    let kept = part(&before, n - FROZEN..n);
    let of_frozen = |mean: &[f32; 3]| kept[0].means.contains(mean);
    for round in 1..=2u32 {
        let count = engine.splats().unwrap().len();
        for number in 2 * round - 1..=2 * round {
            let view = ViewId(number as usize % 2);
            engine.step(view, &moving(scene, number, 1)).unwrap();
        }
        let plan = DensifyPlan {
            step: 100 * round,
            max_gaussians: plan.max_gaussians.max(n),
            ..*plan
        };
        engine.densify(&plan).unwrap();
        let Report::Densify(report) = last_report(engine.as_mut()) else {
            panic!("no report of a round");
        };
        let after = engine.download().unwrap();
        let total = after.0.len();
        assert_eq!(report.total, total as u64);
        assert_eq!(after.1.frozen, FROZEN, "{plan:?}");
        assert!(
            part(&after, total - FROZEN..total) == kept,
            "frozen ones changed in {plan:?}"
        );
        let copies = after.0.means[..total - FROZEN]
            .iter()
            .filter(|mean| of_frozen(mean));
        assert_eq!(copies.count(), 0, "copies of frozen ones: {plan:?}");
        if plan.relocate.is_some() {
            // A quarter is dead; the frozen ones of them stay.
            assert!(report.relocated > 0 || round > 1);
            assert_eq!(report.added as usize, count * 50 / 1000, "{plan:?}");
        } else {
            assert!(report.cloned + report.split > 0 || round > 1, "{plan:?}");
        }
    }
}
