//! `dapple bench`: speed of this machine, compared with its limits.
//!
//! Each file reads the options of one measurement and prints what `dapple-instruments` measured: [`device`], peak
//! rates; [`stages`], on synthetic splats; [`step`], on the points of a real scene; [`ranks`], the same on
//! several devices; [`render`], frames without training; [`train`], on a capture; [`ops`], tensor operations. [`common`] has their limits and warnings, [`table`] prints stages and times.

mod common;
mod device;
mod ops;
mod ranks;
mod render;
mod stages;
mod step;
mod table;
mod train;

pub use common::{parse_size, remark_limits};
pub use ops::with_threads;

use crate::console::Console;
use clap::Subcommand;
use dapple::scene::Result;

const AFTER_HELP: &str = "\
Times are medians over steps. Measure on an otherwise idle machine: a warning appears if
the times scatter.

Examples:
  dapple bench device                      peak rates of the GPU and the CPU
  dapple bench stages                      every stage on 10 k, 165 k and 1 M Gaussians
  dapple bench step garden-points          a step with fixed Gaussians of a real scene
  dapple bench ranks garden-points         the same on several GPUs, each with a part of the model
  dapple bench render garden-points        frames of the same scene, without training
  dapple bench train captures/bird         seconds per training step on your own capture
  dapple bench ops                         tensor operations: elements, norms, products, LoRA";

/// Measures how fast this machine trains and renders
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Device(device::Args),
    Ops(ops::Args),
    Ranks(ranks::Args),
    Render(render::Args),
    Stages(stages::Args),
    Step(step::Args),
    Train(Box<train::Args>),
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    match &args.bench {
        Bench::Device(args) => device::run(args, console),
        Bench::Ops(args) => ops::run(args, console),
        Bench::Ranks(args) => ranks::run(args, console),
        Bench::Render(args) => render::run(args, console),
        Bench::Stages(args) => stages::run(args, console),
        Bench::Step(args) => step::run(args, console),
        Bench::Train(args) => train::run(args, console),
    }
}
