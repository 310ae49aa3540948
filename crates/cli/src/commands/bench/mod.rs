//! `dapple bench`: how fast this machine is at it, and how far from what it could be.
//!
//! One file a measurement: [`device`], what it reaches at most; [`stages`] on synthetic splats, [`step`] on the points of a real scene,
//! [`train`] on a capture. They share [`measure`], which times steps of any engine, the [`rows`] of a
//! table of stages with their costs ([`gpu_cost`]), and [`statistics`] of times.

mod device;
mod garden;
pub mod gpu_cost;
pub mod measure;
mod random;
mod rows;
mod stages;
mod statistics;
mod step;
mod train;

use crate::console::Console;
use crate::machine;
use clap::Subcommand;
use dapple::AnyEngine;
use dapple::contract::Stage;
use dapple::cpu::cost::{self, Work};
use dapple::cpu::level_name;
use dapple::runtime::{AdapterReport, measure_limits};
use dapple::scene::Result;
use rows::{LimitRow, StageRow};
use serde::Serialize;
use statistics::{Times, remark_spread};

/// Of everything that `--json` prints here; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

const AFTER_HELP: &str = "\
Times are medians over steps. Measure on a machine that does nothing else: a remark appears where
the times scatter.

Examples:
  dapple bench device                      what the GPU and the processor reach at most
  dapple bench stages                      every stage on 10 k, 165 k and 1 M Gaussians
  dapple bench step garden-points          the field's step: fixed Gaussians of a real scene
  dapple bench train captures/bird         seconds a training step on your own capture";

/// Measures how fast this machine trains
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Device(device::Args),
    Stages(stages::Args),
    Step(step::Args),
    Train(train::Args),
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    match &args.bench {
        Bench::Device(args) => device::run(args, console),
        Bench::Stages(args) => stages::run(args, console),
        Bench::Step(args) => step::run(args, console),
        Bench::Train(args) => train::run(args, console),
    }
}

/// What the times were measured on.
#[derive(Debug, Serialize)]
struct Machine {
    /// The engine and its device.
    device: String,
    processor: Option<String>,
    operating_system: String,
    memory_bytes: Option<u64>,
    /// Of the CPU engine.
    threads: Option<usize>,
    simd: Option<&'static str>,
    gpu: Option<AdapterReport>,
}

impl Machine {
    fn of(engine: &mut AnyEngine) -> Self {
        let (threads, gpu) = match engine {
            AnyEngine::Cpu(engine) => (Some(engine.threads()), None),
            AnyEngine::Gpu(engine) => (None, Some(engine.gpu().report().clone())),
            _ => (None, None),
        };
        Self {
            device: engine.as_engine().description(),
            processor: machine::processor(),
            operating_system: machine::operating_system(),
            memory_bytes: machine::memory_bytes(),
            threads,
            simd: threads.map(|_| level_name()),
            gpu,
        }
    }

    fn line(&self) -> String {
        let name = self.processor.as_deref().unwrap_or("unknown processor");
        match (&self.gpu, self.threads, self.simd) {
            (Some(gpu), ..) => format!(
                "machine   {} ({}, driver {}), host {name}",
                gpu.name, gpu.backend, gpu.driver
            ),
            (None, Some(threads), Some(simd)) => {
                format!("machine   {name}, {threads} threads, {simd}")
            }
            _ => format!("machine   {name}"),
        }
    }
}

/// The most that the engine's device reaches.
pub fn limits(engine: &AnyEngine, console: &Console) -> Result<LimitRow> {
    let (flops, bytes, spread) = match engine {
        AnyEngine::Cpu(engine) => {
            let limits = engine.measure_limits();
            (
                limits.flops_per_second,
                limits.bytes_per_second,
                limits.spread,
            )
        }
        AnyEngine::Gpu(engine) => {
            let limits = measure_limits(engine.gpu())?;
            (
                limits.flops_per_second,
                limits.bytes_per_second,
                limits.spread,
            )
        }
        _ => (0.0, 0.0, 0.0),
    };
    remark_spread("the machine's limits", spread, console);
    Ok(LimitRow {
        gflops: flops * 1e-9,
        gb_per_s: bytes * 1e-9,
    })
}

/// The table of stages.
fn stage_rows(
    stages: &[(Stage, Times)],
    work: &Work,
    limits: LimitRow,
    on_gpu: bool,
) -> Vec<StageRow> {
    let whole_ms = stages.iter().map(|(_, times)| times.median_ms).sum();
    let rows = stages.iter().map(|&(stage, times)| {
        let cost = if on_gpu {
            gpu_cost::cost(stage, work, dapple::gpu::Precision::default())
        } else {
            cost::cost(stage, work)
        };
        StageRow::new(stage, times, whole_ms, cost, limits)
    });
    rows.collect()
}

/// `WxH`.
pub fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let side = |text: &str| {
        let pixels = text.trim().parse::<u32>().ok();
        pixels.filter(|side| (1..=16_384).contains(side))
    };
    text.split_once('x')
        .and_then(|(width, height)| Some([side(width)?, side(height)?]))
        .ok_or_else(|| {
            "width x height is needed, each 1 to 16384 pixels, for example 516x344".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_not() {
        assert_eq!(parse_size("516x344"), Ok([516, 344]));
        for bad in ["", "516", "x", "0x5", "5x-1", "5x99999", "1x2x3"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
