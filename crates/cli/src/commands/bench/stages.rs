//! `dapple bench stages`: what each stage of a training step takes, and how far it is from the
//! machine's limit.
//!
//! 1. Measure the limits: arithmetic and bandwidth of the engine's threads.
//! 2. For each number of Gaussians and each size: upload synthetic splats, render them, take the
//!    render, slightly changed, for the photo.
//! 3. Step with learning rates too small to move anything, so that every step does the same.
//! 4. Divide the counted operations and bytes (`dapple::cpu::cost`) by the median times.

use super::statistics::{Times, remark_spread};
use super::{Machine, SCHEMA};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::grouped;
use dapple::contract::{
    Adam, LearningRates, RenderSettings, Report, Stage, StepSettings, TrainView, ViewId,
};
use dapple::cpu::cost::{Work, cost};
use dapple::cpu::{CpuEngine, Limits};
use dapple::scene::{Error, Photo, Result, synth};
use dapple::{Engine, Rendered};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

const AFTER_HELP: &str = "\
GFLOP/s and GB/s come from operations and bytes that are counted by formula (dapple::cpu::cost says
how): a multiply-add is two operations, all 16 pixels of a visited row count, and what the counts
do not tell is left out. Both are held against what this machine reaches with the same threads:
chains of multiply-adds, and a = b + k c over 288 MiB. The column \"of limit\" is the larger of the
two fractions and says which limit is nearer.

Every step does the same work: the splats are synthetic and stay where they are.

Examples:
  dapple bench stages                                        all sizes, about a minute on 2 cores
  dapple bench stages --gaussians 165000 --size 516x344      one of them, a few seconds
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

/// `WxH`.
fn parse_size(text: &str) -> Result<[u32; 2], String> {
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

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    limits: LimitRow,
    runs: Vec<Run>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct LimitRow {
    gflops: f64,
    gb_per_s: f64,
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
    stages: Vec<StageRow>,
}

#[derive(Debug, Serialize)]
struct StageRow {
    stage: Stage,
    #[serde(flatten)]
    times: Times,
    /// Part of the step's median.
    share: f64,
    flops: u64,
    bytes: u64,
    gflops: f64,
    gb_per_s: f64,
    /// Fractions of the machine's limits.
    of_compute: f64,
    of_memory: f64,
    /// The limit that is nearer, and how near.
    bound: Bound,
    of_limit: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    Compute,
    Memory,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let mut engine = args.device.cpu_engine(console)?;
    let limits = engine.measure_limits();
    remark_spread("the machine's limits", limits.spread, console);
    let mut results = Results {
        schema: SCHEMA,
        machine: Machine::of(&engine),
        limits: limits.into(),
        runs: Vec::new(),
    };
    if !args.json {
        console.data(&format!(
            "{}\n{}",
            results.machine.line(),
            results.limits.line()
        ))?;
    }
    for &count in &args.gaussians {
        let splats = synth::splats(count as usize, SEED);
        for &size in &args.size {
            engine.upload(&splats, None)?;
            let run = measure(&mut engine, size, args.steps, results.limits)?;
            run.step.remark(&run.title(), console);
            if !args.json {
                console.data(&run.table())?;
            }
            results.runs.push(run);
        }
    }
    if args.json {
        console.json(&results)?;
    }
    Ok(())
}

/// Steps 2 to 4 for the splats that the engine holds.
fn measure(engine: &mut CpuEngine, size: [u32; 2], steps: u32, limits: LimitRow) -> Result<Run> {
    let camera = synth::bench_camera(size[0], size[1]);
    let photo = changed(&engine.render(&camera, &RenderSettings::default())?);
    let photo = Arc::new(photo);
    let view = engine.add_views(vec![TrainView { camera, photo }])?[0];
    let mut step_ns = Vec::new();
    let mut stage_ns: Vec<(Stage, Vec<u64>)> = Vec::new();
    for step in 1..=WARM_UP + steps {
        let (whole, stages) = one_step(engine, view, step)?;
        if step <= WARM_UP {
            continue;
        }
        step_ns.push(whole);
        for (stage, ns) in stages {
            match stage_ns.iter_mut().find(|(name, _)| *name == stage) {
                Some((_, all)) => all.push(ns),
                None => stage_ns.push((stage, vec![ns])),
            }
        }
    }
    let step = Times::of(&step_ns);
    let work = engine.work();
    let rows = stage_ns
        .iter()
        .map(|(stage, ns)| StageRow::new(*stage, Times::of(ns), &step, &work, limits));
    Ok(Run {
        gaussians: work.gaussians,
        width: size[0],
        height: size[1],
        steps,
        visible: work.visible,
        instances: work.instances,
        row_visits: work.row_visits,
        step,
        it_per_s: step.per_second(),
        stages: rows.collect(),
    })
}

/// A render as a photo, slightly changed, so that the loss has a gradient everywhere.
fn changed(rendered: &Rendered) -> Photo {
    let bytes = rendered.rgb.iter().enumerate().map(|(i, value)| {
        let ripple = 0.02 * ((i / 3 % 7) as f32 - 3.0) / 3.0;
        ((0.95 * value + 0.02 + ripple).clamp(0.0, 1.0) * 255.0).round() as u8
    });
    Photo::from_rgb(rendered.width, rendered.height, bytes.collect())
}

/// Nanoseconds of a step, and of its stages.
fn one_step(engine: &mut CpuEngine, view: ViewId, step: u32) -> Result<(u64, Vec<(Stage, u64)>)> {
    // Adam's steps are about the learning rate long: this is below the rounding of a parameter.
    let rate = 1e-12;
    let settings = StepSettings {
        step,
        render: RenderSettings::default(),
        learning_rates: LearningRates {
            means: rate,
            scales: rate,
            quats: rate,
            opacities: rate,
            sh0: rate,
            sh_rest: rate,
        },
        adam: Adam::default(),
        ssim_weight: 0.2,
        accumulate_density: true,
    };
    let start = Instant::now();
    engine.step(view, &settings)?;
    let whole = start.elapsed().as_nanos() as u64;
    let stages = engine.poll()?.into_iter().find_map(|report| match report {
        Report::Step(done) => Some(done.stages),
        _ => None,
    });
    let stages = stages.ok_or_else(|| Error::internal("the engine reports no step"))?;
    let times = stages.iter().map(|time| (time.stage, time.duration_ns));
    Ok((whole, times.collect()))
}

impl From<Limits> for LimitRow {
    fn from(limits: Limits) -> Self {
        Self {
            gflops: limits.flops_per_second * 1e-9,
            gb_per_s: limits.bytes_per_second * 1e-9,
        }
    }
}

impl LimitRow {
    fn line(&self) -> String {
        format!(
            "limits    {:.1} GFLOP/s, {:.1} GB/s (multiply-adds; read + written)",
            self.gflops, self.gb_per_s
        )
    }
}

impl StageRow {
    fn new(stage: Stage, times: Times, step: &Times, work: &Work, limits: LimitRow) -> Self {
        let cost = cost(stage, work);
        let seconds = (times.median_ms * 1e-3).max(1e-9);
        let gflops = cost.flops as f64 / seconds * 1e-9;
        let gb_per_s = cost.bytes as f64 / seconds * 1e-9;
        let (of_compute, of_memory) = (gflops / limits.gflops, gb_per_s / limits.gb_per_s);
        let (bound, of_limit) = if of_compute > of_memory {
            (Bound::Compute, of_compute)
        } else {
            (Bound::Memory, of_memory)
        };
        Self {
            stage,
            times,
            share: times.median_ms / step.median_ms.max(f64::MIN_POSITIVE),
            flops: cost.flops,
            bytes: cost.bytes,
            gflops,
            gb_per_s,
            of_compute,
            of_memory,
            bound,
            of_limit,
        }
    }

    fn line(&self) -> String {
        let gflops = match self.flops {
            0 => "-".to_owned(),
            _ => format!("{:.1}", self.gflops),
        };
        let bound = match self.bound {
            Bound::Compute => "compute",
            Bound::Memory => "memory",
        };
        format!(
            "{:<15}{:>10.2}{:>10.2}{:>7.1} %{:>10}{:>8.1}{:>7.0} % {bound}",
            self.stage.name(),
            self.times.median_ms,
            self.times.min_ms,
            100.0 * self.share,
            gflops,
            self.gb_per_s,
            100.0 * self.of_limit,
        )
    }
}

impl Run {
    fn title(&self) -> String {
        format!(
            "{} Gaussians at {}x{}",
            grouped(self.gaussians),
            self.width,
            self.height
        )
    }

    fn table(&self) -> String {
        let mut lines = vec![
            format!(
                "\n{}: {} visible, {} instances, {} rows visited",
                self.title(),
                grouped(self.visible),
                grouped(self.instances),
                grouped(self.row_visits)
            ),
            format!(
                "{:<15}{:>10}{:>10}{:>9}{:>10}{:>8}{:>9}",
                "stage", "median ms", "min ms", "share", "GFLOP/s", "GB/s", "of limit"
            ),
        ];
        lines.extend(self.stages.iter().map(StageRow::line));
        let flops: u64 = self.stages.iter().map(|row| row.flops).sum();
        let bytes: u64 = self.stages.iter().map(|row| row.bytes).sum();
        let per_ns = 1e-6 / self.step.median_ms.max(f64::MIN_POSITIVE);
        lines.push(format!(
            "{:<15}{:>10.2}{:>10.2}{:>9}{:>10.1}{:>8.1}   {:.2} it/s",
            "step",
            self.step.median_ms,
            self.step.min_ms,
            "",
            flops as f64 * per_ns,
            bytes as f64 * per_ns,
            self.it_per_s
        ));
        lines.join("\n")
    }
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
