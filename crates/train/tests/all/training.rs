//! Short real runs on the CPU engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_device::BoxedEngine;
use dapple_engine::RenderSettings;
use dapple_scene::{Camera, Dataset, Point, Pose, SH_C0, Splats, View, ply};
use dapple_train::{Outcome, Preset, RunFolder, Silent, TrainConfig, Trainer, train_into};
use glam::DVec3;

fn engine(threads: usize) -> BoxedEngine {
    let options = CpuOptions {
        threads: Some(threads),
    };
    BoxedEngine::host(CpuEngine::new(options).unwrap())
}

/// A ball of coloured Gaussians on a golden spiral, seen from 16 places; sparse points with noise.
fn capture() -> Dataset {
    let count = 300;
    let mut truth = Splats::empty(0);
    for i in 0..count {
        let t = (i as f32 + 0.5) / count as f32;
        let (z, angle) = (1.0 - 2.0 * t, 2.399_963_2 * i as f32);
        let r = (1.0 - z * z).sqrt();
        truth.means.push([r * angle.cos(), r * angle.sin(), z]);
        truth.scales.push([-2.2, -2.6, -3.0]);
        truth.quats.push([angle.cos(), angle.sin(), t, 0.3]);
        truth.opacities.push(3.0);
        let band = if i % 5 < 2 { 0.9 } else { 0.2 };
        truth
            .sh0
            .push([band, t, 1.0 - t].map(|v| (v - 0.5) / SH_C0));
    }
    let points = (0..count).step_by(2).map(|i| Point {
        position: truth.means[i].map(|v| v + 0.03 * (7.0 * v + i as f32).sin()),
        rgb: truth.sh0[i].map(|v| ((0.5 + v * SH_C0) * 255.0) as u8),
    });
    let points = points.collect();
    let mut engine = engine(2);
    engine.upload(&truth, None).unwrap();
    let view = |i: usize| {
        let angle = i as f64 * 0.7;
        let eye = DVec3::new(3.5 * angle.cos(), 0.4 * (i % 3) as f64, 3.5 * angle.sin());
        let camera = Camera::pinhole(96, 80, 90.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
        let rendered = engine.render(&camera, &RenderSettings::default()).unwrap();
        View::new(format!("{i:02}.png"), camera, rendered.photo())
    };
    Dataset {
        views: (0..16).map(view).collect(),
        points,
        ..Dataset::default()
    }
}

/// Trains, and returns the bytes of the PLY and the outcome.
fn train(dataset: &Dataset, config: TrainConfig, threads: usize) -> (Vec<u8>, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let mut trainer = Trainer::new(dataset, config, engine(threads)).unwrap();
    let outcome = train_into(&folder, &mut trainer, &mut Silent).unwrap();
    let splats = ply::read(&folder.splats_path()).unwrap();
    assert_eq!(splats.len() as u64, outcome.gaussians);
    (std::fs::read(folder.splats_path()).unwrap(), outcome)
}

#[test]
fn training_raises_held_out_quality_within_the_budget() {
    let dataset = capture();
    let config = TrainConfig {
        max_gaussians: 400,
        ..Preset::M9.config_for(800)
    };
    let mut trainer = Trainer::new(&dataset, config, engine(2)).unwrap();
    let before = trainer.evaluate().unwrap();
    let start = trainer.gaussians();
    let after = trainer.run(&mut Silent).unwrap();
    let eval = after.eval.unwrap();
    let figures = format!(
        "{:.2} -> {:.2} dB, {:.3} -> {:.3}, {start} -> {} Gaussians",
        before.psnr, eval.psnr, before.ssim, eval.ssim, after.gaussians
    );
    eprintln!("{figures}");
    assert!(
        eval.psnr > 24.5 && eval.psnr > before.psnr + 6.0,
        "{figures}"
    );
    assert!(eval.ssim > 0.83, "{figures}");
    assert!(after.gaussians > start + 100, "{figures}");
    let history = trainer.history();
    assert!(history.losses.iter().all(|row| row.gaussians <= 400));
    assert!(history.densify.iter().any(|round| round.refused > 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let dataset = capture();
    let config = |seed| TrainConfig {
        seed,
        max_gaussians: 600,
        ..Preset::M9.config_for(100)
    };
    let (first, outcome) = train(&dataset, config(3), 1);
    assert!(outcome.gaussians > 150);
    assert!(
        first == train(&dataset, config(3), 1).0,
        "same seed, other bytes"
    );
    assert!(
        first == train(&dataset, config(3), 3).0,
        "three threads, other bytes"
    );
    assert!(
        first != train(&dataset, config(4), 3).0,
        "the seed changes nothing"
    );
}

#[test]
fn a_run_says_what_the_cap_left_out() {
    let dataset = capture();
    let losses = |max_gaussians_per_tile| {
        let config = TrainConfig {
            max_gaussians_per_tile,
            ..Preset::M8Smoke.config_for(5)
        };
        let mut trainer = Trainer::new(&dataset, config, engine(2)).unwrap();
        trainer.run(&mut Silent).unwrap();
        trainer.history().cap
    };
    let cut = losses(3);
    assert_eq!(cut.steps, 5);
    assert!(cut.most_instances > 10);
    // Three Gaussians of opacity 0.1 transmit most of the light.
    assert!(cut.largest_transmittance > 0.5 && cut.largest_transmittance <= 1.0);
    assert_eq!(losses(0), dapple_train::CapLosses::default());
}
