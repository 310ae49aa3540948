//! `dapple bench render`: frames of a fixed number of Gaussians, without training; see
//! [`dapple_instruments::bench::render`].

use super::common::{SCHEMA, parse_size, report};
use super::table::{camera_lines, times_line, title};
use crate::console::Console;
use crate::options::DeviceOptions;
use dapple::scene::Result;
use dapple_instruments::bench::Machine;
use dapple_instruments::bench::garden::Garden;
use dapple_instruments::bench::render::{self, Part, Run};
use dapple_instruments::bench::step::SEED;
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
FOLDER and Gaussians are those of `dapple bench step`. Frames are rendered from the cameras in turn, as
in the viewer, and stay on the device.

On a GPU a frame's time is wall time: 5 sequences of --frames frames are enqueued, each between two
moments at which the GPU is idle, and divided by their frames. They are rendered one by one, and then
again several views at once, as far as the engine renders them so: it does for lists of views, not for
the viewer, which needs one at a time. The parts of a frame are timed by the
GPU's clock in frames of their own, which takes longer than the frame without clocks.

Examples:
  dapple bench render garden-points
  dapple bench render garden-points --tiles 5 --size 1920x1080 --device gpu --json";

/// Measures frames without training, on the points of a real scene
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folder with points.ply and cameras.json
    folder: PathBuf,

    /// Copies of the points along x and y: g x g in all
    #[arg(long, value_name = "G,..", value_delimiter = ',', default_value = "1,3,5",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    tiles: Vec<u32>,

    /// Sizes of the frames, pixels
    #[arg(long, value_name = "WxH,..", value_delimiter = ',',
        default_value = "1280x720,1920x1080", value_parser = parse_size)]
    size: Vec<[u32; 2]>,

    /// Frames to time, on a GPU of each sequence, after some that warm up
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..))]
    frames: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Results {
    schema: u32,
    machine: Machine,
    folder: PathBuf,
    seed: u64,
    runs: Vec<Run>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let garden = Garden::read(&args.folder)?;
    let engine = args.device.open(false, console)?;
    let machine = Machine::from_engine(&engine);
    drop(engine);
    if !args.json {
        console.data(&machine.line())?;
    }
    let mut results = Results {
        schema: SCHEMA,
        machine,
        folder: args.folder.clone(),
        seed: SEED,
        runs: Vec::new(),
    };
    for &tiles in &args.tiles {
        let truth = garden.splats(tiles, SEED);
        for &size in &args.size {
            let opener = args.device.opener();
            let run = render::run(&opener, &garden, (tiles, &truth), size, args.frames)?;
            let name = title(run.gaussians, size);
            report(&run.frame, &name, args.json, console, || lines(&run))?;
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
    let rate = format!("{:.0} frames/s", run.frames_per_s);
    lines.push(times_line("frame", &run.frame, run.frames_per_time, &rate));
    if let Some(at_once) = &run.at_once {
        let name = format!("frame, {} at once ", at_once.views);
        let rate = format!("{:.0} frames/s", at_once.frames_per_s);
        lines.push(times_line(
            &name,
            &at_once.frame,
            run.frames_per_time,
            &rate,
        ));
    }
    lines.extend(run.parts.iter().map(part_line));
    if let Some(at_once) = &run.at_once {
        lines.push(format!("{} frames at once:", at_once.views));
        lines.extend(at_once.parts.iter().map(part_line));
    }
    lines.join("\n")
}

fn part_line(part: &Part) -> String {
    format!(
        "{:<24}{:>9.4} ms median, {:.4} min",
        part.name, part.times.median_ms, part.times.min_ms
    )
}
