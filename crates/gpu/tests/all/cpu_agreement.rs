//! Compares each stage with its CPU version: from the results of the CPU engine's stages before it,
//! a stage of the GPU engine computes the same result as the CPU engine's stage.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;
use crate::support::cpu_agreement;

use cpu_agreement::{Case, cases, stages};
use dapple_engine::{LossTerm, Stage, StepSettings, Trace};
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_scene::Splats;

fn engine(without_subgroups: bool, bounds_dispatches: bool) -> GpuEngine {
    support::engine_on(GpuEngineOptions {
        gpu: support::options(without_subgroups),
        bounds_dispatches: Some(bounds_dispatches),
        ..GpuEngineOptions::default()
    })
}

/// Returns the faults of a stage that starts from `inputs`, `splats` and `settings`.
fn faults_of(
    gpu: &mut GpuEngine,
    case: &Case,
    stage: Stage,
    (inputs, splats, settings): (&Trace, &Splats, &StepSettings),
) -> Vec<String> {
    let view = case.upload(gpu);
    dapple_engine::Engine::upload(gpu, splats, Some(&case.state)).unwrap();
    let actual = gpu.run_stage(stage, inputs, view, settings).unwrap();
    case.faults(stage, &actual)
}

#[test]
fn every_stage_alone_does_what_its_twin_does() {
    require_gpu!();
    for (without_subgroups, bounds_dispatches) in [(false, false), (true, false), (false, true)] {
        let mut gpu = engine(without_subgroups, bounds_dispatches);
        let mut faults = Vec::new();
        for case in cases() {
            for stage in stages() {
                let given = (&case.truth, &case.splats, &case.settings);
                faults.extend(faults_of(&mut gpu, &case, stage, given));
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

#[test]
fn a_whole_step_goes_through_the_same_states() {
    require_gpu!();
    let case = &cases()[0];
    let mut gpu = engine(false, false);
    let view = case.upload(&mut gpu);
    let actual = gpu.trace(view, &case.settings).unwrap();
    let faults: Vec<String> = stages()
        .flat_map(|stage| case.faults_within(stage, &actual, 1e-4))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Injects a fault in one number of a stage's inputs.
fn plant(stage: Stage, inputs: &mut Trace, splats: &mut Splats) {
    // In the middle of the image, near and opaque: it is visible.
    let seen = inputs.order[inputs.order.len() / 8] as usize;
    let middle = inputs.image.len() / 2 + 36;
    let splat = inputs
        .projected
        .iter_mut()
        .find(|s| s.gaussian as usize == seen)
        .unwrap();
    match stage {
        Stage::Project => splats.scales[seen][0] += 0.01,
        Stage::Order => splat.depth += 1.0,
        Stage::Emit => splat.mean2d[0] += 20.0,
        Stage::Sort => inputs.instances[7][1] ^= 1,
        Stage::Ranges => inputs.sorted.swap(3, 4),
        Stage::Blend => splat.rgb[1] += 0.05,
        Stage::Loss => inputs.image[middle][2] += 0.01,
        Stage::BlendBackward => inputs.image_gradient[middle][0] *= 1.1,
        Stage::Update => {
            let own = inputs.instances.iter().position(|i| i[0] as usize == seen);
            inputs.slots[own.unwrap()][6] *= 1.1;
        }
        Stage::Appearance | Stage::Densify => {}
    }
}

#[test]
fn a_planted_fault_is_noticed_in_every_stage() {
    require_gpu!();
    let case = &cases()[0];
    let mut gpu = engine(false, false);
    for stage in stages() {
        let (mut inputs, mut splats) = (case.truth.clone(), case.splats.clone());
        let whole = (&case.truth, &case.splats, &case.settings);
        assert!(faults_of(&mut gpu, case, stage, whole).is_empty());
        plant(stage, &mut inputs, &mut splats);
        let broken = (&inputs, &splats, &case.settings);
        let faults = faults_of(&mut gpu, case, stage, broken);
        assert!(!faults.is_empty(), "{stage}: the fault was not noticed");
        println!("{stage}: {faults:?}");
    }
}

#[test]
fn a_wrong_constant_is_noticed() {
    require_gpu!();
    let case = &cases()[2];
    let mut gpu = engine(false, false);
    let mut changed = |stage, change: &dyn Fn(&mut StepSettings)| {
        let mut settings = case.settings;
        change(&mut settings);
        let given = (&case.truth, &case.splats, &settings);
        let faults = faults_of(&mut gpu, case, stage, given);
        assert!(!faults.is_empty(), "{stage}: the fault was not noticed");
    };
    changed(Stage::Project, &|s| s.render.sh_degree = 1);
    changed(Stage::Blend, &|s| s.render.background[0] += 0.001);
    changed(Stage::Loss, &|s| s.losses[LossTerm::Ssim] = 0.201);
    changed(Stage::Update, &|s| s.adam.beta2 = 0.9991);
    changed(Stage::Update, &|s| s.learning_rates.quats *= 1.1);
}
