//! `dapple bench train`: seconds a training step on a capture, with a fixed number of Gaussians.
//!
//! 1. Load the capture; with `--duplicate`, put copies beside its points.
//! 2. Train as `dapple train` does, with rounds of density control never due.
//! 3. Time each step but the first few.

use super::statistics::Times;
use super::{Machine, SCHEMA};
use crate::console::Console;
use crate::machine;
use crate::options::{CaptureOptions, DeviceOptions, merged_config};
use crate::training_display::grouped;
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

Loading is not timed, and nothing is scored or saved. Memory is the most that the process held.

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

    /// Steps to time, after 5 that are not
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
    peak_memory_bytes: Option<u64>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let preset: Option<Preset> = args.preset.as_deref().map(str::parse).transpose()?;
    let config = merged_config(preset, None, args.patch())?;
    let engine = args.device.cpu_engine(console)?;
    let machine = Machine::of(&engine);
    let mut dataset = load(&args.scene, &config.load_options(), &console.progress())?;
    duplicate(&mut dataset, args.duplicate, &config)?;
    let sizes = dataset
        .views
        .iter()
        .map(|v| (v.photo.width, v.photo.height));
    let (width, height) = sizes
        .max_by_key(|&(w, h)| u64::from(w) * u64::from(h))
        .unwrap_or((0, 0));
    let mut trainer = Trainer::new(&dataset, config, Box::new(engine))?;
    drop(dataset);

    let mut durations_ns = Vec::new();
    for step in 1..=WARM_UP + args.steps {
        let start = Instant::now();
        trainer.step()?;
        if step > WARM_UP {
            durations_ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    let step = Times::of(&durations_ns);
    let results = Results {
        schema: SCHEMA,
        machine,
        scene: args.scene.clone(),
        photos: trainer.train_view_count(),
        width,
        height,
        gaussians: trainer.gaussians(),
        sh_degree: trainer.schedule().sh_degree(WARM_UP + args.steps),
        steps: args.steps,
        step,
        seconds_per_step: step.median_ms * 1e-3,
        it_per_s: step.per_second(),
        peak_memory_bytes: machine::peak_memory_bytes(),
    };
    step.remark("the steps", console);
    if args.json {
        return console.json(&results);
    }
    console.data(&results.lines())
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
    let mut random = Random(config.seed);
    let mut copy = |point: &Point, half: f32| Point {
        position: point.position.map(|v| v + half * random.next()),
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

/// SplitMix64 (Steele, Lea & Flood 2014).
struct Random(u64);

impl Random {
    /// Uniform in -1..1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bits = ((z ^ (z >> 31)) >> 40) as f32;
        bits / (1u32 << 23) as f32 - 1.0
    }
}

impl Results {
    fn lines(&self) -> String {
        let memory = self
            .peak_memory_bytes
            .map_or("unknown".to_owned(), machine::human_bytes);
        [
            self.machine.line(),
            format!(
                "work      {} Gaussians, SH degree {}, {} photos of up to {}x{}",
                grouped(self.gaussians),
                self.sh_degree,
                self.photos,
                self.width,
                self.height
            ),
            format!(
                "step      {:.4} s median, {:.4} s at the 95th percentile, over {} steps",
                self.seconds_per_step,
                self.step.p95_ms * 1e-3,
                self.steps
            ),
            format!("rate      {:.2} it/s", self.it_per_s),
            format!("memory    {memory} at most"),
        ]
        .join("\n")
    }
}
