//! Training for surfaces: its steps, its weights, its default for flatness; and that it flattens and turns Gaussians.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_engine::{LossTerm, RenderSettings};
use dapple_reference as reference;
use dapple_scene::{Dataset, Splats, View};
use dapple_synth::{self as synth, SynthOptions};
use dapple_train::config::SurfacePatch;
use dapple_train::{ConfigPatch, Preset, Schedule, TrainConfig, Trainer};

fn patch(enabled: bool) -> ConfigPatch {
    ConfigPatch {
        surface: SurfacePatch {
            enabled: Some(enabled),
            ..SurfacePatch::default()
        },
        ..ConfigPatch::default()
    }
}

#[test]
fn every_third_step_after_the_start_has_the_loss() {
    let mut config = TrainConfig::default();
    let plain = Schedule::new(config.clone(), 1.0);
    assert!((1..=config.steps).all(|step| plain.losses(step)[LossTerm::Normals] == 0.0));
    config.surface.enabled = true;
    config.surface.normals = 0.1;
    let schedule = Schedule::new(config, 1.0);
    let weight = |step: u32| schedule.losses(step)[LossTerm::Normals];
    assert_eq!([8_997, 8_999].map(weight), [0.0; 2], "before 30 %");
    assert_eq!(
        [9_003, 9_004, 9_005, 9_006].map(weight),
        [0.3, 0.0, 0.0, 0.3]
    );
}

#[test]
fn flatness_is_a_default_of_surfaces_and_can_be_named() {
    let flatness = |patch: ConfigPatch| {
        let config = TrainConfig::resolve(None, None, patch).unwrap();
        config.densify.flat_reg
    };
    assert_eq!([flatness(patch(false)), flatness(patch(true))], [0.0, 2.0]);
    let mut named = patch(true);
    named.densify.flat_reg = Some(0.5);
    assert_eq!(flatness(named), 0.5);
}

/// Normal consistency of the views of a capture, by the reference.
fn disagreement(splats: &Splats, capture: &Dataset) -> f64 {
    let all = reference::Gaussian::all(splats);
    let stride = splats.sh_rest_stride();
    let settings = RenderSettings::default();
    let of = |view: &View| {
        let loss = reference::normal_consistency(&all, stride, &view.camera, &settings, 1.0);
        let loss = loss.unwrap();
        loss.value * (64 * 48) as f64 / loss.counted as f64
    };
    capture.views.iter().step_by(3).map(of).sum()
}

#[test]
fn gaussians_agree_with_the_surface_that_they_form() {
    let options = SynthOptions {
        photos: 12,
        width: 64,
        height: 48,
        points: 300,
        ..SynthOptions::default()
    };
    let capture = synth::dataset(&options).unwrap();
    let trained = |enabled: bool| {
        let mut config = Preset::Micro.config_for(400);
        config.surface.enabled = enabled;
        (config.surface.normals, config.surface.start) = (0.5, 0.1);
        let engine = CpuEngine::new(CpuOptions::default()).unwrap();
        let mut trainer = Trainer::new(&capture, config, BoxedEngine::host(engine)).unwrap();
        (0..400).for_each(|_| trainer.step().unwrap());
        trainer.splats().unwrap()
    };
    let [plain, surface] = [false, true].map(|on| disagreement(&trained(on), &capture));
    assert!(surface < 0.7 * plain, "{surface}, without {plain}");
}
