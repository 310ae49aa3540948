//! `dapple bench stages`: what each stage of a training step takes, and how far it is from the
//! machine's limit.
//!
//! 1. Measure the limits: arithmetic and bandwidth of the engine's threads, or of the GPU.
//! 2. For each number of Gaussians and each size: upload synthetic splats, render them, take the
//!    render, slightly changed, for the photo.
//! 3. Step with learning rates too small to move anything, so that every step does the same.
//! 4. Hold the counted operations and bytes (`dapple::cpu::cost`, [`gpu_cost`](super::gpu_cost))
//!    against the median times.

use super::measure::{
    HostPerStep, Job, Measured, changed, measure, photo, standing_still, view_of,
};
use super::rows::{LimitRow, StageRow, table};
use super::statistics::Times;
use super::{Machine, SCHEMA, limits, parse_size, stage_rows};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::{gaussians, grouped};
use dapple::contract::RenderSettings;
use dapple::scene::{Result, Splats, synth};
use serde::Serialize;

const AFTER_HELP: &str = "\
Bytes and operations are counted by formula (dapple::cpu::cost says how): a multiply-add is two
operations, all 16 pixels of a visited row count, and what the counts do not tell is left out. The
floor is the larger of bytes over bandwidth and operations over arithmetic, both as this machine
reaches them: chains of multiply-adds, and copies of arrays larger than any cache. The last column
says how many times the floor a stage takes, and which limit is nearer.

On a GPU a step's time is wall time over sequences of steps; its stages are timed by the GPU's clock
in a run of their own. What the host waits, copies and allocates in a step is counted.

Every step does the same work: the splats are synthetic and stay where they are.

Examples:
  dapple bench stages                                        all sizes, about a minute on 2 cores
  dapple bench stages --gaussians 165000 --size 516x344      one of them, a few seconds
  dapple bench stages --device gpu
  dapple bench stages --threads 1 --json > stages.json       for a script";

/// Steps before those that are timed: buffers grow, caches and clocks warm up.
const WARM_UP: u32 = 3;
const SEED: u64 = 0;

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

    /// Steps to time, after 3 that are not
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

/// One number of Gaussians at one size.
#[derive(Debug, Serialize)]
struct Run {
    gaussians: u64,
    width: u32,
    height: u32,
    steps: u32,
    visible: u64,
    instances: u64,
    row_visits: u64,
    step: Times,
    it_per_s: f64,
    /// Steps that each time of a step is a mean over.
    steps_per_time: u32,
    host_per_step: Option<HostPerStep>,
    stages: Vec<StageRow>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let mut engine = args.device.open(false, console)?;
    let machine = Machine::of(&mut engine);
    let limits = limits(&engine, console)?;
    drop(engine);
    if !args.json {
        console.data(&format!("{}\n{}", machine.line(), limits.line()))?;
    }
    let mut results = Results {
        schema: SCHEMA,
        machine,
        limits,
        runs: Vec::new(),
    };
    for &count in &args.gaussians {
        let splats = synth::splats(count as usize, SEED);
        for &size in &args.size {
            let run = one(args, &splats, size, limits)?;
            run.step.remark(&run.title(), console);
            if !args.json {
                console.data(&run.lines())?;
            }
            results.runs.push(run);
        }
    }
    if args.json {
        console.json(&results)?;
    }
    Ok(())
}

/// Steps 2 to 4.
fn one(args: &Args, splats: &Splats, size: [u32; 2], limits: LimitRow) -> Result<Run> {
    let settings = RenderSettings::default();
    let camera = synth::bench_camera(size[0], size[1]);
    let mut engine = args.device.open_quietly(false)?.engine;
    engine.as_engine().upload(splats, None)?;
    let rendered = engine.as_engine().render(&camera, &settings)?;
    drop(engine);
    let Measured {
        step,
        steps_per_time,
        stages,
        work,
        host,
    } = measure(&Job {
        device: &args.device,
        splats,
        views: &[view_of(camera, changed(photo(&rendered)))],
        learning_rates: standing_still(),
        warm_up: WARM_UP,
        steps: args.steps,
        near: settings.near,
    })?;
    Ok(Run {
        gaussians: work.gaussians,
        width: size[0],
        height: size[1],
        steps: args.steps,
        visible: work.visible,
        instances: work.instances,
        row_visits: work.row_visits,
        step,
        it_per_s: step.per_second(),
        steps_per_time,
        stages: stage_rows(&stages, &work, limits, host.is_some()),
        host_per_step: host,
    })
}

impl Run {
    fn title(&self) -> String {
        format!(
            "{} at {}x{}",
            gaussians(self.gaussians),
            self.width,
            self.height
        )
    }

    fn lines(&self) -> String {
        let mut lines = vec![format!(
            "\n{}: {} visible, {} instances, {} rows visited",
            self.title(),
            grouped(self.visible),
            grouped(self.instances),
            grouped(self.row_visits)
        )];
        if !self.stages.is_empty() {
            lines.push(table(&self.stages));
        }
        lines.push(format!(
            "{:<15}{:>10.3}{:>10.3}   {:.2} it/s",
            "step", self.step.median_ms, self.step.min_ms, self.it_per_s
        ));
        lines.extend(self.host_per_step.iter().map(HostPerStep::line));
        lines.join("\n")
    }
}
