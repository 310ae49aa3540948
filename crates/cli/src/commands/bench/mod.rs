//! `dapple bench`: how fast this machine is at it, and how far from what it could be.
//!
//! One file each: [`stages`] on synthetic splats, [`train`] on a capture, [`statistics`] of times.

mod stages;
mod statistics;
mod train;

use crate::console::Console;
use crate::machine;
use clap::Subcommand;
use dapple::cpu::{CpuEngine, level_name};
use dapple::scene::Result;
use serde::Serialize;

/// Of everything that `--json` prints here; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

const AFTER_HELP: &str = "\
Times are medians over steps. Measure on a machine that does nothing else: a remark appears where
the times scatter.

Examples:
  dapple bench stages                      every stage on 10 k, 165 k and 1 M Gaussians
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
    Stages(stages::Args),
    Train(train::Args),
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    match &args.bench {
        Bench::Stages(args) => stages::run(args, console),
        Bench::Train(args) => train::run(args, console),
    }
}

/// What the times were measured on.
#[derive(Debug, Serialize)]
struct Machine {
    processor: Option<String>,
    operating_system: String,
    memory_bytes: Option<u64>,
    threads: usize,
    simd: &'static str,
}

impl Machine {
    fn of(engine: &CpuEngine) -> Self {
        Self {
            processor: machine::processor(),
            operating_system: machine::operating_system(),
            memory_bytes: machine::memory_bytes(),
            threads: engine.threads(),
            simd: level_name(),
        }
    }

    fn line(&self) -> String {
        let name = self.processor.as_deref().unwrap_or("unknown processor");
        format!("machine   {name}, {} threads, {}", self.threads, self.simd)
    }
}
