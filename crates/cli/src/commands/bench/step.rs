//! `dapple bench step`: the field's fixed-size training step on the points of a real scene.
//!
//! 1. Make Gaussians from the points ([`garden`](super::garden)) and render them from the folder's
//!    cameras: the photos.
//! 2. Train from the same Gaussians, disturbed: L1 and SSIM, Adam on every parameter, SH degree 3,
//!    the cameras in turn, no density control.
//! 3. Time the steps, and the stages in a run of their own ([`measure`](super::measure)).

use super::garden::{self, Garden};
use super::measure::{HostPerStep, Job, Measured, measure, photo, view_of};
use super::rows::{LimitRow, StageRow, table};
use super::statistics::Times;
use super::{Machine, SCHEMA, limits, parse_size, stage_rows};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::training_display::{gaussians, grouped};
use dapple::contract::{LearningRates, RenderSettings, StepCounts};
use dapple::scene::{Result, Splats};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
FOLDER holds points.ply (positions and colours) and cameras.json (width, height, K, and for each
camera the 4x4 rows of camera_from_world). Points inside [-2, 2]^3 are put g x g times side by side;
scales are uniform in [1e-4, 0.02], rotations and opacities random, harmonics of degree 3 with a
spread of 0.05. Photos are renders of that. Training starts from it displaced by 0.003, with SH 0
times 0.9 and the rest times 0.5: 0.8 L1 + 0.2 (1 - SSIM), Adam on every parameter, the cameras in
turn. The numbers of visible Gaussians and of (Gaussian, tile) pairs tell whether two programs do
the same work.

On a GPU a step's time is wall time: 5 sequences of --steps steps are enqueued, each between two
moments at which the GPU has nothing to do, and divided by their steps. The stages are timed by the
GPU's clock in a run of their own, and held against bytes and operations counted by formula.

Examples:
  dapple bench step garden-points
  dapple bench step garden-points --tiles 3 --size 1920x1080 --device gpu --json";

/// Steps before those that are timed.
const WARM_UP: u32 = 30;
const SEED: u64 = 0;
const NEAR: f32 = 0.01;

/// Step sizes of the 3DGS paper's trainer, for a scene of extent 1.
const LEARNING_RATES: LearningRates = LearningRates {
    means: 1.6e-4,
    scales: 5e-3,
    quats: 1e-3,
    opacities: 5e-2,
    sh0: 2.5e-3,
    sh_rest: 1.25e-4,
};

/// Measures the field's training step of fixed size
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A folder with points.ply and cameras.json
    folder: PathBuf,

    /// Copies of the points along x and y: g x g in all
    #[arg(long, value_name = "G,..", value_delimiter = ',', default_value = "1,3,5",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    tiles: Vec<u32>,

    /// Sizes of the photos, pixels
    #[arg(long, value_name = "WxH,..", value_delimiter = ',',
        default_value = "648x420,1280x720,1920x1080", value_parser = parse_size)]
    size: Vec<[u32; 2]>,

    /// Steps to time, after 30 that are not
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..))]
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
    folder: PathBuf,
    seed: u64,
    runs: Vec<Run>,
}

/// One number of Gaussians at one size.
#[derive(Debug, Serialize)]
struct Run {
    tiles: u32,
    gaussians: u64,
    width: u32,
    height: u32,
    /// Steps that each time is a mean over: 1 where steps were timed one by one.
    steps_per_time: u32,
    step: Times,
    it_per_s: f64,
    /// Of the photos' renders.
    cameras: Vec<CameraCounts>,
    host_per_step: Option<HostPerStep>,
    stages: Vec<StageRow>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct CameraCounts {
    visible: u64,
    instances: u64,
    max_instances_per_tile: u64,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let garden = Garden::read(&args.folder)?;
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
        folder: args.folder.clone(),
        seed: SEED,
        runs: Vec::new(),
    };
    for &tiles in &args.tiles {
        let truth = garden.splats(tiles, SEED);
        for &size in &args.size {
            let run = one(args, &garden, &truth, tiles, size, limits)?;
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

fn one(
    args: &Args,
    garden: &Garden,
    truth: &Splats,
    tiles: u32,
    size: [u32; 2],
    limits: LimitRow,
) -> Result<Run> {
    let settings = RenderSettings {
        near: NEAR,
        ..RenderSettings::default()
    };
    let mut engine = args.device.open_quietly(false)?.engine;
    engine.as_engine().upload(truth, None)?;
    let (mut views, mut cameras) = (Vec::new(), Vec::new());
    for camera in garden.cameras(size) {
        let rendered = engine.as_engine().render(&camera, &settings)?;
        cameras.push(rendered.counts.into());
        views.push(view_of(camera, photo(&rendered)));
    }
    drop(engine);
    let splats = garden::start(truth.clone(), SEED);
    let Measured {
        step,
        steps_per_time,
        stages,
        work,
        host,
    } = measure(&Job {
        device: &args.device,
        splats: &splats,
        views: &views,
        learning_rates: LEARNING_RATES,
        warm_up: WARM_UP,
        steps: args.steps,
        near: NEAR,
    })?;
    Ok(Run {
        tiles,
        gaussians: work.gaussians,
        width: size[0],
        height: size[1],
        steps_per_time,
        step,
        it_per_s: step.per_second(),
        cameras,
        stages: stage_rows(&stages, &work, limits, host.is_some()),
        host_per_step: host,
    })
}

impl From<StepCounts> for CameraCounts {
    fn from(counts: StepCounts) -> Self {
        Self {
            visible: counts.visible,
            instances: counts.instances,
            max_instances_per_tile: counts.max_instances_per_tile,
        }
    }
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
        let mut lines = vec![format!("\n{}", self.title())];
        for (i, counts) in self.cameras.iter().enumerate() {
            lines.push(format!(
                "camera {i}  {} visible, {} instances, {} in a tile at most",
                grouped(counts.visible),
                grouped(counts.instances),
                grouped(counts.max_instances_per_tile)
            ));
        }
        let over = match self.steps_per_time {
            1 => "single steps".to_owned(),
            steps => format!("sequences of {steps}"),
        };
        lines.push(format!(
            "step      {:.3} ms median, {:.3} min, {:.3} at the 95th percentile ({over}), {:.1} it/s",
            self.step.median_ms, self.step.min_ms, self.step.p95_ms, self.it_per_s
        ));
        lines.extend(self.host_per_step.iter().map(HostPerStep::line));
        if !self.stages.is_empty() {
            lines.push(table(&self.stages));
        }
        lines.join("\n")
    }
}
