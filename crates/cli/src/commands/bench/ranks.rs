//! `dapple bench ranks`: steps on several devices that share the Gaussians; see [`dapple_instruments::bench::ranks`].

use super::common::{SCHEMA, parse_size};
use super::table::title;
use crate::console::Console;
use crate::options::DeviceOptions;
use dapple::runtime::copy_through_host;
use dapple::scene::Result;
use dapple_instruments::bench::garden::Garden;
use dapple_instruments::bench::ranks::{self, Job, Run};
use dapple_instruments::bench::step::SEED;
use serde::Serialize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
FOLDER, Gaussians and photos are those of `dapple bench step`. A step has --views-per-step views.
The first line is an engine without ranks, if it can hold the model. Then N ranks share the Gaussians,
on the GPUs of this machine in turn, or on the CPU. Efficiency is views/s over N times those of the first line. Equal
checksums are equal results.

Times of a rank are per view: projecting its Gaussians, rendering its views, moving its Gaussians,
exchanges with other ranks; \"waits\" is the part of the exchanges in which slower ranks were late.
\"sent\" is what it sends to other ranks for a view. Balance is the busy time of the slowest rank
over the mean: 1.00 is even.

Examples:
  dapple bench ranks garden-points --ranks 1,2 --device gpu
  dapple bench ranks garden-points --ranks 1,2,4 --tiles 9 --views-per-step 8";

/// Measures steps on several devices that share the Gaussians
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folder with points.ply and cameras.json
    folder: PathBuf,

    /// Numbers of ranks
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,

    /// Views of a step
    #[arg(long, value_name = "B", default_value = "8", value_parser = clap::value_parser!(u32).range(1..))]
    views_per_step: u32,

    /// Copies of the points along x and y: g x g in all
    #[arg(long, value_name = "G,..", value_delimiter = ',', default_value = "5",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    tiles: Vec<u32>,

    /// Size of the photos, pixels
    #[arg(long, value_name = "WxH", default_value = "1920x1080", value_parser = parse_size)]
    size: [u32; 2],

    /// Steps to time, after 3 warm-up steps
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Copy between GPUs through the host, as on a machine whose GPUs have no access to each other
    #[arg(long)]
    through_host: bool,

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
    folder: PathBuf,
    views_per_step: u32,
    size: [u32; 2],
    through_host: bool,
    runs: Vec<Run>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    if args.through_host {
        copy_through_host();
    }
    let garden = Garden::read(&args.folder)?;
    let (device, options) = args.device.of_rank()?;
    let numbers: Vec<usize> = args.ranks.iter().map(|&ranks| ranks as usize).collect();
    let job = Job {
        device: &device,
        options,
        size: args.size,
        views: args.views_per_step,
        batches: args.steps,
    };
    let mut results = Results {
        schema: SCHEMA,
        folder: args.folder.clone(),
        views_per_step: args.views_per_step,
        size: args.size,
        through_host: args.through_host,
        runs: Vec::new(),
    };
    for &tiles in &args.tiles {
        let truth = garden.splats(tiles, SEED);
        if !args.json {
            let name = title(truth.len() as u64, args.size);
            let views = args.views_per_step;
            let through = if args.through_host {
                ", copies through the host"
            } else {
                ""
            };
            console.data(&format!("{name}, {views} views a step{through}"))?;
        }
        let runs = ranks::run(&job, &garden, &truth, &numbers, |run| match args.json {
            true => Ok(()),
            false => console.data(&lines(run)),
        })?;
        results.runs.extend(runs);
    }
    if args.json {
        console.json(&results)?;
    }
    Ok(())
}

fn lines(run: &Run) -> String {
    let mut lines = vec![format!(
        "{:<28} {:>9.2} ms a step  {:>8.1} views/s  {:>6}  checksum {}",
        run.device,
        run.batch_ms,
        run.views_per_s,
        match run.efficiency {
            Some(efficiency) => format!("{:.0} %", 100.0 * efficiency),
            None => "-".to_owned(),
        },
        run.checksum
    )];
    for (rank, row) in run.each.iter().enumerate() {
        lines.push(format!(
            "  rank {rank}  project {:.2}  render {:.2}  update {:.2}  exchange {:.2} (waits {:.2}) ms, sent {:.1} MB",
            row.project_ms,
            row.compare_ms,
            row.update_ms,
            row.exchange_ms,
            row.wait_ms,
            row.sent_mb
        ));
    }
    if let Some(balance) = run.balance {
        lines.push(format!("  balance {balance:.2}"));
    }
    lines.join("\n")
}
