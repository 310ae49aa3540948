//! `dapple bench`: training speed of this machine, compared with its limits.
//!
//! Each file reads the options of one measurement and prints what `dapple-instruments` measured: [`device`], peak
//! rates; [`stages`], on synthetic splats; [`step`], on the points of a real scene; [`train`], on a capture; [`ops`],
//! tensor operations. [`table`] prints stages and the host's work.

mod device;
mod ops;
mod stages;
mod step;
mod table;
mod train;

pub use ops::with_threads;

use crate::console::Console;
use clap::Subcommand;
use dapple::AnyEngine;
use dapple::scene::Result;
use dapple_instruments::bench;
use dapple_instruments::bench::rows::LimitRow;
use dapple_instruments::bench::times::Times;
use dapple_profile::ceilings::is_scattered;

/// Version of the `--json` output of these commands; raised when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

const AFTER_HELP: &str = "\
Times are medians over steps. Measure on an otherwise idle machine: a warning appears if
the times scatter.

Examples:
  dapple bench device                      peak rates of the GPU and the CPU
  dapple bench stages                      every stage on 10 k, 165 k and 1 M Gaussians
  dapple bench step garden-points          a step with fixed Gaussians of a real scene
  dapple bench train captures/bird         seconds per training step on your own capture
  dapple bench ops                         tensor operations: elements, norms, products, LoRA";

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
    Ops(ops::Args),
    Stages(stages::Args),
    Step(step::Args),
    Train(Box<train::Args>),
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    match &args.bench {
        Bench::Device(args) => device::run(args, console),
        Bench::Ops(args) => ops::run(args, console),
        Bench::Stages(args) => stages::run(args, console),
        Bench::Step(args) => step::run(args, console),
        Bench::Train(args) => train::run(args, console),
    }
}

/// Returns the peak rates of the engine's device.
fn limits(engine: &AnyEngine, console: &Console) -> Result<LimitRow> {
    let (limits, spread) = bench::limits(engine)?;
    remark_limits(spread, console);
    Ok(limits)
}

/// Prints a warning if the limits scatter.
pub fn remark_limits(spread: f64, console: &Console) {
    if is_scattered(spread) {
        busy("the machine's limits", spread, console);
    }
}

/// Prints a warning if the times of `what` scatter, also with `--quiet`, since such numbers cannot be used.
fn remark(times: &Times, what: &str, console: &Console) {
    if let Some(spread) = times.scattered() {
        busy(what, spread, console);
    }
}

fn busy(what: &str, spread: f64, console: &Console) {
    console.always(&format!(
        "warning: {what}: slow ones took {spread:.2} times the median: the machine is busy\n  \
         hint: end other programs, or measure more with --steps and compare medians"
    ));
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
