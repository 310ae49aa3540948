//! A real capture, trained long enough to detect a broken gradient or schedule.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_scene::{NoProgress, load};
use dapple_train::config::DataPatch;
use dapple_train::{ConfigPatch, Preset, Silent, TrainConfig, Trainer};

#[test]
fn banana_reaches_its_bar() {
    let Some(capture) =
        dapple_scene::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), "banana")
    else {
        return;
    };
    let flags = ConfigPatch {
        steps: Some(400),
        initial_gaussians: Some(8000),
        max_gaussians: Some(12_000),
        data: DataPatch {
            max_resolution: Some(200),
            ..DataPatch::default()
        },
        ..ConfigPatch::default()
    };
    let config = TrainConfig::resolve(Some(Preset::M9), None, flags).unwrap();
    let dataset = load(&capture, &config.load_options(), &NoProgress).unwrap();
    let engine = CpuEngine::new(CpuOptions::default()).unwrap();
    let mut trainer = Trainer::new(&dataset, config, BoxedEngine::host(engine)).unwrap();
    let before = trainer.evaluate().unwrap();
    let outcome = trainer.run(&mut Silent).unwrap();
    let after = outcome.eval.unwrap();
    let figures = format!(
        "{:.2} -> {:.2} dB, SSIM {:.3} -> {:.3}, {} Gaussians, {:.1} s",
        before.psnr,
        after.psnr,
        before.ssim,
        after.ssim,
        outcome.gaussians,
        trainer.history().seconds.train
    );
    eprintln!("{figures}");
    assert!(after.psnr > 26.7 && after.ssim > 0.7, "{figures}");
}
