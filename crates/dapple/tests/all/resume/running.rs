//! Runs, and their outputs.

use crate::lease;
use crate::resume::captures::CAPTURE;
use dapple::BoxedEngine;
use dapple::contract::DensifyReport;
use dapple::gpu::{GpuEngine, GpuEngineOptions, Precision};
use dapple::prelude::*;
use dapple::runtime::GpuOptions;
use dapple::scene::test_requirements;
use dapple::train::{EvalRow, LossRow, Metrics, train_into};
use std::path::Path;

/// Outputs of a run that do not depend on its time.
#[derive(Debug, PartialEq)]
pub struct Left {
    pub ply: Vec<u8>,
    pub appearance: Option<Vec<u8>>,
    pub losses: Vec<(u32, f32, u64)>,
    pub evals: Vec<(u32, f64, f64, u64)>,
    /// Refined cameras, if the run refines poses.
    pub cameras: Option<Vec<u8>>,
    pub aligned: Option<f64>,
    pub rounds: Vec<DensifyReport>,
    pub csv_rows: usize,
}

pub fn metrics(folder: &RunFolder) -> Metrics {
    serde_json::from_slice(&std::fs::read(folder.metrics_path()).unwrap()).unwrap()
}

pub fn left(folder: &RunFolder) -> Left {
    let metrics = metrics(folder);
    let loss = |row: &LossRow| (row.step, row.loss, row.gaussians);
    let eval = |row: &EvalRow| (row.step, row.psnr, row.ssim, row.gaussians);
    let csv = std::fs::read_to_string(folder.csv_path()).unwrap();
    Left {
        ply: std::fs::read(folder.splats_path()).unwrap(),
        appearance: std::fs::read(folder.appearance_path()).ok(),
        losses: metrics.losses.iter().map(loss).collect(),
        evals: metrics.evals.iter().map(eval).collect(),
        cameras: std::fs::read(folder.cameras_path()).ok(),
        aligned: metrics.aligned_psnr,
        rounds: metrics.densify,
        csv_rows: csv.lines().count(),
    }
}

/// Executes a run until `stop_at`, from the checkpoint in the folder if there is one.
pub fn run(
    folder: &Path,
    config: &TrainConfig,
    engine: BoxedEngine,
    stop_at: Option<u32>,
) -> RunFolder {
    run_on(&CAPTURE, folder, config, engine, stop_at)
}

pub fn run_on(
    capture: &Dataset,
    folder: &Path,
    config: &TrainConfig,
    engine: BoxedEngine,
    stop_at: Option<u32>,
) -> RunFolder {
    let folder = RunFolder::create(folder).unwrap();
    let mut trainer = if folder.checkpoint_path().exists() {
        Trainer::resume(capture, folder.read_checkpoint().unwrap(), engine).unwrap()
    } else {
        Trainer::new(capture, config.clone(), engine).unwrap()
    };
    trainer.stop_at(stop_at);
    train_into(&folder, &mut trainer, &mut Silent).unwrap();
    let says = |word: &str| trainer.notes().iter().all(|note| note.contains(word));
    assert!(says("background"), "{:?}", trainer.notes());
    // Without the lock, which would block the next run.
    RunFolder::open(folder.path())
}

pub fn cpu() -> BoxedEngine {
    dapple::engine(Device::Cpu).unwrap()
}

/// Runs a test with a constructor of the CPU engine and, if there is one, of the GPU engine.
pub fn on_both_engines(test: impl Fn(&dyn Fn() -> BoxedEngine)) {
    test(&cpu);
    if gpu("f32").is_some() {
        test(&|| gpu("f32").unwrap());
    }
}

/// Returns the GPU for tests; `None` without a driver.
pub fn gpu(precision: &str) -> Option<BoxedEngine> {
    if dapple::runtime::adapters().is_empty() {
        test_requirements::skipped("gpu", "no GPU driver on this machine");
        return None;
    }
    let options = GpuEngineOptions {
        gpu: GpuOptions {
            choice: test_requirements::test_gpu().parse().unwrap(),
            ..GpuOptions::default()
        },
        precision: precision.parse::<Precision>().unwrap(),
        ..GpuEngineOptions::default()
    };
    let device = lease::device(&options.gpu).unwrap();
    Some(BoxedEngine::device(
        GpuEngine::on(&device, options).unwrap(),
    ))
}
