//! `dapple bench train`: seconds per training step on a capture, with a fixed number of Gaussians; see
//! [`dapple_instruments::bench::train`].

use super::common::{SCHEMA, remark};
use crate::console::Console;
use crate::machine;
use crate::options::{DeviceOptions, merged_config};
use crate::settings_args::{PresetAndPhotos, SettingsArgs};
use crate::training_display::gaussians;
use dapple::scene::{Result, load};
use dapple::train::ConfigPatch;
use dapple_instruments::bench::Machine;
use dapple_instruments::bench::measure::{HostPerStep, SEQUENCES};
use dapple_instruments::bench::train::{self, Run};
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The Gaussians are those that training starts with, one per sparse point: none is added or removed,
so that two programs can be timed at equal work. --duplicate 8 makes eight of each point, every
copy moved by at most half the distance to the point's neighbours along each axis.

On a GPU a step's time is wall time over 5 sequences of --steps steps, after every photo was used
once. Loading is not timed, and nothing is scored or saved. Memory is the peak of the process.

Examples:
  dapple bench train captures/bird --duplicate 8
  dapple bench train captures/bird --preset quick --max-resolution 800 --steps 300 --json";

/// Measures seconds per training step on a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Capture: a COLMAP, Nerfstudio or Blender folder, or its transforms.json
    #[arg(value_name = "CAPTURE", help_heading = "Input")]
    scene: PathBuf,

    /// Steps to time, after 5 warm-up steps (on a GPU: one per photo)
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Length and size")]
    steps: u32,

    /// Make K Gaussians of each sparse point
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Length and size")]
    duplicate: u32,

    #[command(flatten)]
    capture: SettingsArgs<PresetAndPhotos>,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    scene: PathBuf,
    #[serde(flatten)]
    run: Run,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let config = merged_config(None, args.patch())?;
    let engine = args.device.open(false, console)?;
    let machine = Machine::from_engine(&engine);
    let mut dataset = load(&args.scene, &config.load_options(), &console.progress())?;
    train::duplicate(&mut dataset, args.duplicate, &config)?;
    let results = Results {
        schema: SCHEMA,
        machine,
        scene: args.scene.clone(),
        run: train::run(dataset, config, engine.into_engine(), args.steps)?,
    };
    remark(&results.run.step, "the steps", console);
    if args.json {
        return console.json(&results);
    }
    console.data(&results.lines())
}

impl Args {
    fn patch(&self) -> ConfigPatch {
        ConfigPatch {
            densify: train::without_density_control(),
            ..self.capture.patch()
        }
    }
}

impl Results {
    fn lines(&self) -> String {
        let run = &self.run;
        let memory = run
            .peak_memory_bytes
            .map_or("unknown".to_owned(), machine::human_bytes);
        let over = match run.steps_per_time {
            1 => format!("{} steps", run.steps),
            steps => format!("{SEQUENCES} sequences of {steps} steps"),
        };
        let mut lines = vec![
            self.machine.line(),
            format!(
                "work      {}, SH degree {}, {} photos of up to {}x{}",
                gaussians(run.gaussians),
                run.sh_degree,
                run.photos,
                run.width,
                run.height
            ),
            format!(
                "step      {:.5} s median, {:.5} s at the 95th percentile, over {over}",
                run.seconds_per_step,
                run.step.p95_ms * 1e-3,
            ),
            format!("rate      {:.2} it/s", run.it_per_s),
        ];
        lines.extend(run.host_per_step.iter().map(HostPerStep::line));
        lines.push(format!("memory    {memory} at most"));
        lines.join("\n")
    }
}
