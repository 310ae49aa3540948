//! `dapple demo`: synthesis, training and scores on a synthetic capture.

use crate::commands::synth::make;
use crate::commands::train::{Job, Wall, train};
use crate::console::Console;
use crate::options::{DeviceOptions, merged_config};
use crate::viewing::ViewOptions;
use dapple::scene::{Error, Result};
use dapple::synth::SynthOptions;
use dapple::train::{ConfigPatch, Preset, RunFolder};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Makes a small synthetic capture (OUT/capture), trains it (about a minute on two cores), scores it
on the held-out photos, and prints the paths of splats, renders and metrics. An earlier demo in OUT
is replaced.

Examples:
  dapple demo
  dapple demo --view
  dapple demo -o /tmp/demo";

/// Makes a small synthetic capture, trains it and scores it: about a minute
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Training steps
    #[arg(long, value_name = "N", default_value_t = DEMO_STEPS, help_heading = "Length and size")]
    steps: u32,

    /// Folder for capture and results
    #[arg(
        short,
        long,
        value_name = "FOLDER",
        default_value = "out/demo",
        help_heading = "Output"
    )]
    out: PathBuf,

    #[command(flatten)]
    view: ViewOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

const DEMO_STEPS: u32 = 1500;

/// The photos have 77 000 pixels: more Gaussians than half of that number take time and add no detail.
const DEMO_MAX_GAUSSIANS: usize = 40_000;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let capture = args.out.join("capture");
    refuse_foreign(&args.out, &capture)?;
    let last = RunFolder::open(&args.out);
    let holds_demo = last.holds_metrics() || last.checkpoint_path().exists();
    let flags = ConfigPatch {
        preset: Some(Preset::M9),
        steps: Some(args.steps),
        max_gaussians: Some(DEMO_MAX_GAUSSIANS),
        ..ConfigPatch::default()
    };
    let config = merged_config(None, flags)?;
    let mut wall = Wall::start();
    let engine = wall.device(|| args.device.engine(console))?;
    console.note("1/2  making a capture: a table with objects, photographed from all around");
    wall.aside(|| make(&SynthOptions::default(), &capture, console))?;
    console.note("2/2  training splats on it");
    let job = Job {
        scene: &capture,
        out: &args.out,
        // Replaces an earlier demo, and no other files.
        overwrite: holds_demo,
        stop_at: None,
        photo_memory: None,
        pacer: None,
        from: None,
        background_is_open: false,
        launch: args.device.launch(&capture),
        view: &args.view,
        device: &args.device,
    };
    let mut done = train(job, config, engine, wall, console)?;
    done.end();
    console.outcome(&done.lines())?;
    console.outcome(&format!("capture   {}", capture.display()))?;
    if let Some(interruption) = done.interruption() {
        return Err(interruption);
    }
    console.note(
        "\nopen the splats in any viewer of 3DGS files, for example https://superspl.at/editor\n\
         your own photos: pose them with COLMAP, then `dapple train FOLDER`",
    );
    Ok(())
}

/// Refuses a folder with other files than a demo's.
fn refuse_foreign(out: &Path, capture: &Path) -> Result<()> {
    let holds_something = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if holds_something && !capture.is_dir() {
        return Err(
            Error::input("the output folder holds something that is not a demo")
                .at_path(out)
                .hint("name another folder with --out"),
        );
    }
    Ok(())
}
