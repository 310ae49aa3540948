//! An engine that has only rendered has no memory of steps, and trains as one that has it from the start.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::{Engine, EngineExt, OptimizerState, ViewId, ViewState};
use dapple_gpu::{GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use support::{plan, settings, views};

fn engine() -> GpuEngine {
    support::engine_on(GpuEngineOptions {
        gpu: support::options(false),
        ..GpuEngineOptions::default()
    })
}

/// Trains, with a round of density control, and returns all state.
fn trained(mut engine: GpuEngine) -> (dapple_scene::Splats, OptimizerState) {
    for step in 1..=4 {
        engine
            .step(ViewId(step as usize % 3), &settings(step))
            .unwrap();
    }
    engine.densify(&plan(4)).unwrap();
    engine.finish().unwrap();
    engine.download().unwrap()
}

#[test]
fn memory_of_steps_is_taken_by_the_first_step() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let mut first = engine();
    first.add_views(views()).unwrap();
    first.upload(&scene.splats, None).unwrap();
    let with_steps = first.memory_bytes();

    let mut renders = engine();
    renders.upload(&scene.splats, None).unwrap();
    let image = renders.render(&scene.camera, &scene.settings).unwrap();
    assert!(image == first.render(&scene.camera, &scene.settings).unwrap());
    assert!(
        2 * renders.memory_bytes() < with_steps,
        "{} bytes to render, {with_steps} to train",
        renders.memory_bytes()
    );
    let (splats, state) = renders.download().unwrap();
    assert_eq!(splats, scene.splats);
    let none = OptimizerState::untrained(&splats, ViewState::default());
    assert_eq!(state.first_moments, none.first_moments);
    assert_eq!(state.visible_counts, none.visible_counts);

    renders.add_views(views()).unwrap();
    assert!(trained(renders) == trained(first));
}

#[test]
fn state_of_a_checkpoint_is_kept_without_views() {
    require_gpu!();
    let scene = scenes::named("random_sh3");
    let mut first = engine();
    first.add_views(views()).unwrap();
    first.upload(&scene.splats, None).unwrap();
    let (splats, state) = trained(first);
    let mut holds = engine();
    holds.upload(&splats, Some(&state)).unwrap();
    let (again, found) = holds.download().unwrap();
    assert!(again == splats && found.first_moments == state.first_moments);
    // Splats without state clear it.
    holds.upload(&splats, None).unwrap();
    let (_, found) = holds.download().unwrap();
    let none = OptimizerState::untrained(&splats, ViewState::default());
    assert!(found.first_moments == none.first_moments);
    assert!(found.second_moments == none.second_moments);
    assert!(found.gradient_sums == none.gradient_sums);
}
