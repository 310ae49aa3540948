//! Gaussians of the sky ([`OptimizerState::sky`]): steps leave their places and shapes and apply no regularisers to them, rounds
//! leave them as they are, and both treat all others as they would without a sky.
//!
//! [`OptimizerState::sky`]: dapple_engine::OptimizerState::sky

use super::engines::{Make, growing, last_report};
use super::frozen::{Model, moving, part, upload};
use super::strategy;
use crate::scenes::{self, TestScene};
use dapple_engine::{DensifyPlan, EngineExt, LossTerm, Report, StepSettings, ViewId};

/// No multiples of what engines process together.
const SKY: usize = 45;
const FROZEN: usize = 21;

/// Checks steps, alone and in batches, with noise and regularisers, and rounds of both kinds.
pub fn the_sky_keeps_its_shape(make: Make<'_>) {
    let scene = scenes::named("crowd");
    assert!(scene.splats.len() > 2 * (SKY + FROZEN));
    for size in [1, 2] {
        for frozen in [0, FROZEN] {
            check_steps(make, &scene, (size, frozen));
        }
    }
    let adaptive = DensifyPlan {
        reset_opacity: Some(0.2),
        prune_opacity: Some(0.005),
        ..growing()
    };
    for plan in [strategy::plan(usize::MAX), adaptive] {
        for frozen in [0, FROZEN] {
            check_rounds(make, &scene, (&plan, frozen));
        }
    }
}

/// Returns `settings` without noise and regularisers.
fn plain(settings: StepSettings) -> StepSettings {
    let mut plain = StepSettings {
        losses: settings.losses.with(LossTerm::Opacity, 0.0),
        ..settings
    };
    plain.features.noise.scale = 0.0;
    plain
}

fn check_steps(make: Make<'_>, scene: &TestScene, (size, frozen): (u32, usize)) {
    let n = scene.splats.len();
    let of_sky = n - SKY - frozen..n - frozen;
    let run = |sky: usize, change: fn(StepSettings) -> StepSettings| {
        let (mut engine, before) = upload(make, scene, (sky, frozen));
        for number in 1..=size {
            let view = ViewId(number as usize - 1);
            let settings = change(moving(scene, number, size));
            engine.step(view, &settings).unwrap();
        }
        (before, engine.download().unwrap())
    };
    let (before, after) = run(SKY, |settings| settings);
    let (_, free) = run(0, |settings| settings);
    let (_, bare) = run(0, plain);
    let about = format!("batches of {size}, {frozen} frozen");
    assert_eq!((after.1.sky, after.1.frozen), (SKY, frozen), "{about}");
    let active = 0..of_sky.start;
    assert!(
        part(&after, active.clone()) == part(&free, active),
        "{about}: the others moved otherwise than without a sky"
    );
    assert!(
        part(&after, n - frozen..n) == part(&before, n - frozen..n),
        "{about}: frozen ones moved"
    );
    let shapes = |model: &Model| {
        let (splats, range) = (&model.0, of_sky.clone());
        let axes = [&splats.means, &splats.scales].map(|of| of[range.clone()].to_vec());
        (axes, splats.quats[range].to_vec())
    };
    assert!(shapes(&after) == shapes(&before), "{about}: it moved");
    assert!(shapes(&free) != shapes(&before), "{about}: nothing moves");
    // Everything else takes the steps of the image alone.
    let rest = |model: &Model| {
        let [mut splats, mut first, mut second] = part(model, of_sky.clone());
        for tensors in [&mut splats, &mut first, &mut second] {
            tensors.means.fill([0.0; 3]);
            tensors.scales.fill([0.0; 3]);
            tensors.quats.fill([0.0; 4]);
        }
        [splats, first, second]
    };
    assert!(
        rest(&after) == rest(&bare),
        "{about}: the sky takes other steps than those of the image"
    );
    assert!(
        rest(&after) != rest(&free),
        "{about}: regularisers do nothing"
    );
    assert!(
        rest(&after) != rest(&before),
        "{about}: the sky learns nothing"
    );
}

fn check_rounds(make: Make<'_>, scene: &TestScene, (plan, frozen): (&DensifyPlan, usize)) {
    let (mut engine, _) = upload(make, scene, (SKY, frozen));
    for round in 1..=2u32 {
        for number in 2 * round - 1..=2 * round {
            let view = ViewId(number as usize % 2);
            engine.step(view, &moving(scene, number, 1)).unwrap();
        }
        let before = engine.download().unwrap();
        let n = before.0.len();
        let kept = part(&before, n - SKY - frozen..n);
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
        assert!(total != n || round > 1, "{plan:?}: nothing was added");
        assert_eq!((after.1.sky, after.1.frozen), (SKY, frozen), "{plan:?}");
        assert!(
            part(&after, total - SKY - frozen..total) == kept,
            "the sky changed in {plan:?}"
        );
        let copies = after.0.means[..total - SKY - frozen].iter();
        let copies = copies.filter(|mean| kept[0].means.contains(mean));
        assert_eq!(copies.count(), 0, "copies of the sky: {plan:?}");
    }
}
