//! `dapple bench stages`: times of the stages of a training step, compared with the machine's limits; see
//! [`dapple_instruments::bench::stages`].

use super::common::{SCHEMA, limits, parse_size, report};
use super::table::{limits_line, table, title};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::grouped;
use dapple::scene::Result;
use dapple_instruments::bench::Machine;
use dapple_instruments::bench::measure::HostPerStep;
use dapple_instruments::bench::rows::LimitRow;
use dapple_instruments::bench::stages::{self, Run};
use serde::Serialize;

const AFTER_HELP: &str = "\
Bytes and operations are counted by formula (see dapple::cpu::cost): a multiply-add is two
operations, all 16 pixels of a visited row count, and work that the counts do not contain is
omitted. The floor is the larger of bytes over bandwidth and operations over arithmetic, both as
this machine measures them: chains of multiply-adds, and copies of arrays larger than any cache. The
last column is the time of a stage over its floor, and the nearer limit.

On a GPU a step's time is wall time over sequences of steps; its stages are timed by the GPU's clock
in a separate run. Waits, copies and allocations of the host in a step are counted.

Every step does the same work: the splats are synthetic and stay where they are.

Examples:
  dapple bench stages                                        all sizes, about a minute on 2 cores
  dapple bench stages --gaussians 165000 --size 516x344      one of them, a few seconds
  dapple bench stages --device gpu
  dapple bench stages --threads 1 --json > stages.json       for a script";

/// Measures each stage of a training step on synthetic splats
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Numbers of Gaussians
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "10000,165000,1000000",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    gaussians: Vec<u32>,

    /// Sizes of the photo, pixels
    #[arg(long, value_name = "WxH,..", value_delimiter = ',', default_value = "516x344,1920x1080",
        value_parser = parse_size)]
    size: Vec<[u32; 2]>,

    /// Steps to time, after 3 warm-up steps
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    limits: LimitRow,
    runs: Vec<Run>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let engine = args.device.open(false, console)?;
    let machine = Machine::from_engine(&engine);
    let limits = limits(&engine, console)?;
    drop(engine);
    if !args.json {
        console.data(&format!("{}\n{}", machine.line(), limits_line(&limits)))?;
    }
    let mut results = Results {
        schema: SCHEMA,
        machine,
        limits,
        runs: Vec::new(),
    };
    for &count in &args.gaussians {
        let splats = stages::splats(count);
        for &size in &args.size {
            let run = stages::run(&args.device.opener(), &splats, size, args.steps, limits)?;
            let name = title(run.gaussians, size);
            report(&run.step, &name, args.json, console, || lines(&run))?;
            results.runs.push(run);
        }
    }
    if args.json {
        console.json(&results)?;
    }
    Ok(())
}

fn lines(run: &Run) -> String {
    let mut lines = vec![format!(
        "\n{}: {} visible, {} instances, {} rows visited",
        title(run.gaussians, [run.width, run.height]),
        grouped(run.visible),
        grouped(run.instances),
        grouped(run.row_visits)
    )];
    if !run.stages.is_empty() {
        lines.push(table(&run.stages));
    }
    lines.push(format!(
        "{:<15}{:>10.3}{:>10.3}   {:.2} it/s",
        "step", run.step.median_ms, run.step.min_ms, run.it_per_s
    ));
    lines.extend(run.host_per_step.iter().map(HostPerStep::line));
    lines.join("\n")
}
