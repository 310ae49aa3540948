//! A real capture, trained long enough that a broken gradient or schedule shows.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_scene::{NoProgress, load};
use dapple_train::config::DataPatch;
use dapple_train::{ConfigPatch, Preset, Silent, TrainConfig, Trainer};
use std::path::{Path, PathBuf};

/// The folder of real captures: `DAPPLE_DATA`, or `shared/data` beside the repository.
fn data() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("DAPPLE_DATA") {
        return Some(path.into());
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/data"))
        .find(|folder| folder.is_dir())
}

#[test]
fn banana_reaches_its_bar() {
    let Some(capture) = data()
        .map(|data| data.join("banana"))
        .filter(|p| p.is_dir())
    else {
        dapple_scene::lacking::skipped(
            "captures",
            "the capture `banana` is not here; set DAPPLE_DATA to the folder of captures",
        );
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
    let mut trainer = Trainer::new(&dataset, config, Box::new(engine)).unwrap();
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
