//! `dapple bench train`: seconds a training step on a capture, with a fixed number of Gaussians.
//!
//! 1. Load the capture; with `--duplicate`, put copies beside its points.
//! 2. Train as `dapple train` does, with rounds of density control never due.
//! 3. Time each step but the first few; on a GPU, sequences of steps.

use super::measure::{HostPerStep, SEQUENCES};
use super::random::Random;
use super::statistics::Times;
use super::{Machine, SCHEMA};
use crate::console::Console;
use crate::machine;
use crate::options::{CaptureOptions, DeviceOptions, merged_config};
use crate::training_display::gaussians;
use dapple::AnyEngine;
use dapple::runtime::Gpu;
use dapple::scene::{Dataset, Point, Result, load};
use dapple::train::config::DensifyPatch;
use dapple::train::{ConfigPatch, Preset, TrainConfig, Trainer, init};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

const AFTER_HELP: &str = "\
The Gaussians are those that training starts with, one per sparse point: none is added or removed,
so that two programs can be timed at equal work. --duplicate 8 makes eight of each point, every
copy moved by at most half the distance to the point's neighbours along each axis.

On a GPU a step's time is wall time over 5 sequences of --steps steps, after every photo was used
once. Loading is not timed, and nothing is scored or saved. Memory is the most that the process held.

Examples:
  dapple bench train captures/bird --duplicate 8
  dapple bench train captures/bird --preset quick --max-resolution 800 --steps 300 --json";

/// Steps before those that are timed.
const WARM_UP: u32 = 5;

/// Measures seconds a training step on a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    scene: PathBuf,

    /// Steps to time, after 5 that are not (on a GPU: one for each photo)
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// What the settings are based on [default: standard, the recipe as published]
    #[arg(short, long, value_name = "PRESET", value_parser = super::super::train::preset_parser())]
    preset: Option<String>,

    /// Make K of each sparse point, to have more Gaussians
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    duplicate: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    scene: PathBuf,
    photos: usize,
    /// Of the largest photo.
    width: u32,
    height: u32,
    gaussians: u64,
    /// Active at the last timed step.
    sh_degree: u8,
    steps: u32,
    step: Times,
    seconds_per_step: f64,
    it_per_s: f64,
    /// Steps that each time is a mean over: 1 where steps were timed one by one.
    steps_per_time: u32,
    host_per_step: Option<HostPerStep>,
    peak_memory_bytes: Option<u64>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let preset: Option<Preset> = args.preset.as_deref().map(str::parse).transpose()?;
    let config = merged_config(preset, None, args.patch())?;
    let mut engine = args.device.open(false, console)?;
    let machine = Machine::of(&mut engine);
    let mut dataset = load(&args.scene, &config.load_options(), &console.progress())?;
    duplicate(&mut dataset, args.duplicate, &config)?;
    let cameras = dataset.views.iter().map(|view| view.camera);
    let sizes = cameras.map(|camera| (camera.width, camera.height));
    let (width, height) = sizes
        .max_by_key(|&(w, h)| u64::from(w) * u64::from(h))
        .unwrap_or((0, 0));
    let gpu = match &engine {
        AnyEngine::Gpu(engine) => Some(engine.gpu().clone()),
        _ => None,
    };
    let mut trainer = Trainer::new(&dataset, config, engine.into_engine())?;
    drop(dataset);
    let (step, host) = match &gpu {
        Some(gpu) => in_sequences(&mut trainer, gpu, args.steps)?,
        None => (one_by_one(&mut trainer, args.steps)?, None),
    };
    let results = Results {
        schema: SCHEMA,
        machine,
        scene: args.scene.clone(),
        photos: trainer.train_view_count(),
        width,
        height,
        gaussians: trainer.gaussians(),
        sh_degree: trainer.schedule().sh_degree(trainer.steps_done()),
        steps: args.steps,
        step,
        seconds_per_step: step.median_ms * 1e-3,
        it_per_s: step.per_second(),
        steps_per_time: if gpu.is_some() { args.steps } else { 1 },
        host_per_step: host,
        peak_memory_bytes: machine::peak_memory_bytes(),
    };
    step.remark("the steps", console);
    if args.json {
        return console.json(&results);
    }
    console.data(&results.lines())
}

/// Steps of an engine that is done when `step` returns.
fn one_by_one(trainer: &mut Trainer, steps: u32) -> Result<Times> {
    let mut durations_ns = Vec::new();
    for step in 1..=WARM_UP + steps {
        let start = Instant::now();
        trainer.step()?;
        if step > WARM_UP {
            durations_ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    Ok(Times::of(&durations_ns))
}

/// Steps of an engine with a queue: wall time of sequences, each between two moments at which the
/// device has nothing to do, over their steps; and what the host asked of the device meanwhile.
fn in_sequences(
    trainer: &mut Trainer,
    gpu: &Gpu,
    steps: u32,
) -> Result<(Times, Option<HostPerStep>)> {
    // Every photo once: then all are on the device.
    let photos = u32::try_from(trainer.train_view_count()).unwrap_or(u32::MAX);
    for _ in 0..WARM_UP.max(photos) {
        trainer.step()?;
    }
    let mut durations_ns = Vec::new();
    let mut host = None;
    for _ in 0..SEQUENCES {
        trainer.wait()?;
        gpu.wait()?;
        let before = gpu.counters();
        let start = Instant::now();
        for _ in 0..steps {
            trainer.step()?;
        }
        let asked = gpu.counters() - before;
        gpu.wait()?;
        durations_ns.push(start.elapsed().as_nanos() as u64 / u64::from(steps));
        host = Some(HostPerStep::new(asked, steps));
    }
    trainer.wait()?;
    Ok((Times::of(&durations_ns), host))
}

impl Args {
    fn patch(&self) -> ConfigPatch {
        ConfigPatch {
            densify: DensifyPatch {
                // Never due, though its statistics are kept as in a real run.
                every: Some(u32::MAX),
                reset_every: Some(0),
                ..DensifyPatch::default()
            },
            data: self.capture.patch(),
            ..ConfigPatch::default()
        }
    }
}

/// Makes `copies` of each finite point: itself, and others at random beside it.
fn duplicate(dataset: &mut Dataset, copies: u32, config: &TrainConfig) -> Result<()> {
    dataset
        .points
        .retain(|p| p.position.iter().all(|v| v.is_finite()));
    if copies == 1 || dataset.points.is_empty() {
        return Ok(());
    }
    let views: Vec<usize> = (0..dataset.views.len()).collect();
    let extent = dataset.extent(&views);
    // The first scale of a Gaussian is the distance to its neighbours.
    let distances = init::from_points(&dataset.points, extent, 0, config.seed)?.scales;
    let mut random = Random::new(config.seed);
    let mut copy = |point: &Point, half: f32| Point {
        position: point.position.map(|v| v + half * random.signed()),
        ..*point
    };
    let mut points = Vec::with_capacity(dataset.points.len() * copies as usize);
    for (point, scale) in dataset.points.iter().zip(&distances) {
        points.push(*point);
        points.extend((1..copies).map(|_| copy(point, 0.5 * scale[0].exp())));
    }
    dataset.points = points;
    Ok(())
}

impl Results {
    fn lines(&self) -> String {
        let memory = self
            .peak_memory_bytes
            .map_or("unknown".to_owned(), machine::human_bytes);
        let over = match self.steps_per_time {
            1 => format!("{} steps", self.steps),
            steps => format!("{SEQUENCES} sequences of {steps} steps"),
        };
        let mut lines = vec![
            self.machine.line(),
            format!(
                "work      {}, SH degree {}, {} photos of up to {}x{}",
                gaussians(self.gaussians),
                self.sh_degree,
                self.photos,
                self.width,
                self.height
            ),
            format!(
                "step      {:.5} s median, {:.5} s at the 95th percentile, over {over}",
                self.seconds_per_step,
                self.step.p95_ms * 1e-3,
            ),
            format!("rate      {:.2} it/s", self.it_per_s),
        ];
        lines.extend(self.host_per_step.iter().map(HostPerStep::line));
        lines.push(format!("memory    {memory} at most"));
        lines.join("\n")
    }
}
