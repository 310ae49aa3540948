//! Training for surfaces: its steps, its weights, its default for flatness; and that it flattens and turns Gaussians, and
//! moves them to where photos agree.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_base::quantiles::median;
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
fn every_fifth_step_after_the_start_has_the_losses() {
    let mut config = TrainConfig::default();
    let plain = Schedule::new(config.clone(), 1.0);
    assert!((1..=config.steps).all(|step| plain.losses(step)[LossTerm::Normals] == 0.0));
    config.surface.enabled = true;
    config.surface.normals = 0.1;
    config.surface.matching = 0.2;
    let schedule = Schedule::new(config.clone(), 1.0);
    for (term, each) in [(LossTerm::Normals, 0.5), (LossTerm::Matching, 1.0)] {
        let weight = |step: u32| schedule.losses(step)[term];
        assert_eq!([8_995, 8_999].map(weight), [0.0; 2], "before 30 %");
        assert_eq!(
            [9_005, 9_006, 9_009, 9_010].map(weight),
            [each, 0.0, 0.0, each]
        );
    }
    config.poses.refine = true;
    let refined = Schedule::new(config, 1.0).losses(9_005);
    assert_eq!(
        refined[LossTerm::Matching],
        0.0,
        "poses would not move by it"
    );
    assert_eq!(refined[LossTerm::Normals], 0.5);
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
        (config.surface.matching, config.surface.every) = (0.0, 3);
        let engine = CpuEngine::new(CpuOptions::default()).unwrap();
        let mut trainer = Trainer::new(&capture, config, BoxedEngine::host(engine)).unwrap();
        (0..400).for_each(|_| trainer.step().unwrap());
        trainer.splats().unwrap()
    };
    let [plain, surface] = [false, true].map(|on| disagreement(&trained(on), &capture));
    assert!(surface < 0.7 * plain, "{surface}, without {plain}");
}

/// Returns the median relative error of the surface depths of Gaussians, in pixels in which both depths are known.
fn depth_error(splats: &Splats, capture: &Dataset, truth: &[Vec<f32>]) -> f64 {
    let settings = RenderSettings::default();
    let mut errors: Vec<f64> = Vec::new();
    for (view, truth) in capture.views.iter().zip(truth).step_by(6) {
        let surface = reference::surface(splats, &view.camera, &settings).unwrap();
        let pairs = surface.points.iter().map(|p| p.depth).zip(truth);
        let known = pairs.filter(|&(depth, &truth)| depth > 0.0 && truth > 0.0);
        errors.extend(known.map(|(depth, &truth)| (depth / f64::from(truth) - 1.0).abs()));
    }
    median(errors).unwrap()
}

#[test]
fn photos_that_agree_bring_depths_to_the_truth() {
    let options = SynthOptions {
        photos: 18,
        width: 96,
        height: 72,
        points: 300,
        ..SynthOptions::default()
    };
    let capture = synth::dataset(&options).unwrap();
    let truth = synth::depths(&options).unwrap();
    let error = |matching: f64| {
        let mut config = Preset::Micro.config_for(500);
        config.surface.enabled = true;
        (config.surface.matching, config.surface.every) = (matching, 1);
        let engine = CpuEngine::new(CpuOptions::default()).unwrap();
        let mut trainer = Trainer::new(&capture, config, BoxedEngine::host(engine)).unwrap();
        (0..500).for_each(|_| trainer.step().unwrap());
        depth_error(&trainer.splats().unwrap(), &capture, &truth)
    };
    let [without, with] = [0.0, 0.05].map(error);
    assert!(with < 0.93 * without, "{with}, without {without}");
}
