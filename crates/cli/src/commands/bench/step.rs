//! `dapple bench step`: a fixed-size training step, as measured for gsplat and other trainers, on the points of a
//! real scene; see [`dapple_instruments::bench::step`].

use super::common::{SCHEMA, limits, parse_size, report};
use super::table::{camera_lines, limits_line, table, times_line, title};
use crate::console::Console;
use crate::options::DeviceOptions;
use dapple::scene::Result;
use dapple_instruments::bench::Machine;
use dapple_instruments::bench::garden::Garden;
use dapple_instruments::bench::measure::HostPerStep;
use dapple_instruments::bench::rows::LimitRow;
use dapple_instruments::bench::step::{self, Run, SEED};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
FOLDER holds points.ply (positions and colours) and cameras.json (width, height, K, and for each
camera the 4x4 rows of camera_from_world). Points inside [-2, 2]^3 are put g x g times side by side;
scales are uniform in [1e-4, 0.02], rotations and opacities random, harmonics of degree 3 with a
spread of 0.05. Photos are renders of that. Training starts from it displaced by 0.003, with SH 0
times 0.9 and the rest times 0.5: 0.8 L1 + 0.2 (1 - SSIM), Adam on every parameter, the cameras in
turn. The numbers of visible Gaussians and of (Gaussian, tile) pairs show whether two programs do
the same work.

On a GPU a step's time is wall time: 5 sequences of --steps steps are enqueued, each between two
moments at which the GPU is idle, and divided by their steps. The stages are timed by the
GPU's clock in a separate run, and compared with bytes and operations counted by formula.

Examples:
  dapple bench step garden-points
  dapple bench step garden-points --tiles 3 --size 1920x1080 --device gpu --json";

/// Measures a training step with a fixed number of Gaussians, on the points of a real scene
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folder with points.ply and cameras.json
    folder: PathBuf,

    /// Copies of the points along x and y: g x g in all
    #[arg(long, value_name = "G,..", value_delimiter = ',', default_value = "1,3,5",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    tiles: Vec<u32>,

    /// Sizes of the photos, pixels
    #[arg(long, value_name = "WxH,..", value_delimiter = ',',
        default_value = "648x420,1280x720,1920x1080", value_parser = parse_size)]
    size: Vec<[u32; 2]>,

    /// Steps to time, after 30 warm-up steps
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Train the appearance MLP too, as `dapple train --appearance mlp` does
    #[arg(long = "appearance-mlp", alias = "looks")]
    appearance_mlp: bool,

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
    appearance_mlp: bool,
    runs: Vec<Run>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let garden = Garden::read(&args.folder)?;
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
        folder: args.folder.clone(),
        seed: SEED,
        appearance_mlp: args.appearance_mlp,
        runs: Vec::new(),
    };
    for &tiles in &args.tiles {
        let truth = garden.splats(tiles, SEED);
        for &size in &args.size {
            let truth = (tiles, &truth);
            let run = step::run(
                &args.device.opener(),
                &garden,
                truth,
                size,
                args.steps,
                limits,
                args.appearance_mlp,
            )?;
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
        "\n{}",
        title(run.gaussians, [run.width, run.height])
    )];
    lines.extend(camera_lines(&run.cameras));
    let rate = format!("{:.1} it/s", run.it_per_s);
    lines.push(times_line("step", &run.step, run.steps_per_time, &rate));
    lines.extend(run.host_per_step.iter().map(HostPerStep::line));
    if !run.stages.is_empty() {
        lines.push(table(&run.stages));
    }
    lines.join("\n")
}
