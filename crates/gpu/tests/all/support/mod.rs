//! Shared by the tests of this crate: a device, preferably a software GPU; steps and rounds.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

pub mod blend;
pub mod cpu_agreement;
pub mod front;
pub mod gaussians;
pub mod groups;
pub mod lease;
pub mod world;

use dapple_engine::{DensifyPlan, LearningRates, LossTerm, LossWeights, StepSettings, TrainView};
use dapple_gpu::{Context, GpuEngine, GpuEngineOptions};
use dapple_reference::scenes;
use dapple_runtime::GpuOptions;
use dapple_scene::{Camera, Photo, Pose, test_requirements};
use glam::DVec3;
use std::sync::{Arc, LazyLock};

/// Returns the device of the tests, with every check on. Tests begin with `require_gpu!()`.
pub fn context() -> Context {
    open(false)
}

/// Returns the device of the tests without subgroups.
pub fn context_without_subgroups() -> Context {
    open(true)
}

fn open(without_subgroups: bool) -> Context {
    lease::device(&options(without_subgroups)).unwrap()
}

/// Returns an engine on a device that tests share.
pub fn engine_on(options: GpuEngineOptions) -> GpuEngine {
    GpuEngine::on(&lease::device(&options.gpu).unwrap(), options).unwrap()
}

/// Returns true if there is a GPU driver; otherwise prints that tests are skipped.
pub fn has_gpu() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| !dapple_runtime::adapters().is_empty());
    if !*FOUND {
        test_requirements::skipped(
            "gpu",
            "no GPU driver on this machine. Install one, for example mesa-vulkan-drivers, which needs \
             no GPU",
        );
    }
    *FOUND
}

/// Returns the options of the tests' device.
pub fn options(without_subgroups: bool) -> GpuOptions {
    GpuOptions {
        choice: test_requirements::test_gpu().parse().unwrap(),
        validate: true,
        without_subgroups,
        ..GpuOptions::default()
    }
}

/// Returns `|actual - expected| / |expected|`.
pub fn relative_l2(actual: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let actual: Vec<f64> = actual.iter().map(|&v| f64::from(v)).collect();
    dapple_reference::compare::relative_l2(&actual, expected)
}

/// Returns the settings of a step on the scene `crowd` with rates that move everything.
pub fn settings(step: u32) -> StepSettings {
    StepSettings {
        learning_rates: LearningRates {
            means: 1e-3,
            scales: 2e-3,
            quats: 3e-3,
            opacities: 4e-2,
            sh0: 2e-2,
            sh_rest: 6e-3,
        },
        losses: LossWeights::default().with(LossTerm::Ssim, 0.2),
        accumulate_density: true,
        ..StepSettings::new(step, scenes::named("crowd").settings)
    }
}

/// Returns a round that grows and prunes.
pub fn plan(step: u32) -> DensifyPlan {
    DensifyPlan {
        step,
        seed: 3,
        grow_gradient: Some(1e-5),
        split_scale: 0.02,
        prune_opacity: Some(0.005),
        prune_scale: None,
        max_gaussians: usize::MAX,
        reset_opacity: None,
        room_share: 1.0,
        ..DensifyPlan::NOTHING
    }
}

/// Returns a view with a smooth photo.
pub fn view(camera: Camera) -> TrainView {
    let (width, height) = (camera.width, camera.height);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| [3 * x, 4 * y, x + y]));
    let rgb = pixels.flatten().map(|v| v as u8).collect();
    TrainView {
        camera,
        photo: Arc::new(Photo::from_rgb(width, height, rgb)),
    }
}

/// Returns views from three places; all see the test scenes.
pub fn views() -> Vec<TrainView> {
    let from = |x: f64| {
        let eye = DVec3::new(x, -0.7, -3.9);
        let pose = Pose::look_at(eye, DVec3::new(0.1, 0.05, 0.0), DVec3::NEG_Y);
        view(Camera::pinhole(72, 52, 66.0, pose))
    };
    vec![from(1.1), from(0.0), from(-1.3)]
}
