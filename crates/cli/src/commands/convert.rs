//! `dapple convert`: splats from one file to another, smaller on the way if asked.

use crate::console::Console;
use crate::machine::human_bytes;
use crate::options::{NewFolders, read_splats, refuse_existing, splats_file};
use crate::training_display::{gaussians, grouped};
use dapple::scene::splat_file::{self, Format};
use dapple::scene::{Error, MAX_SH_DEGREE, Result, Splats};
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The output's name says its format:
  .ply    the layout that 3DGS tools share (SuperSplat, gsplat, ...), whatever dialect was read
  .splat  32 bytes a Gaussian for web viewers; no view dependence, eight bits for colour and rotation

Examples:
  dapple convert out/bird small.ply --sh-degree 0        no view dependence: a quarter of the size
  dapple convert out/bird web.splat
  dapple convert splats.ply clean.ply --min-opacity 0.02
  dapple convert splats.ply phone.ply --max-gaussians 500000";

/// Converts splats, and reduces them on request
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The splats to read: a .ply or .splat file, or the folder of a run
    input: PathBuf,

    /// The file to write, ending in .ply or .splat; folders that are not there are made
    output: PathBuf,

    /// Cut or pad the spherical harmonics to this degree, 0 to 3 [default: as they are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)))]
    sh_degree: Option<u8>,

    /// Leave out Gaussians less opaque than this, 0 to 1 [default: keep all]
    #[arg(long, value_name = "X")]
    min_opacity: Option<f32>,

    /// Keep at most this many, those that cover most: opacity times the largest cross-section
    /// [default: 0, which keeps all]
    #[arg(long, value_name = "N")]
    max_gaussians: Option<usize>,

    /// Replace OUTPUT if it exists
    #[arg(long)]
    overwrite: bool,

    /// Print one JSON object that says what was done
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    gaussians_read: usize,
    gaussians: usize,
    sh_degree: u8,
    bytes: u64,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let format = Format::of_name(&args.output)?;
    refuse_existing(&args.output, args.overwrite)?;
    if args.min_opacity.is_some_and(|x| !(0.0..=1.0).contains(&x)) {
        return Err(Error::input("an opacity lies between 0 and 1")
            .at("--min-opacity")
            .hint("0.005 is what training itself prunes at"));
    }
    let (mut splats, _) = read_splats(&splats_file(&args.input)?, console)?;
    let gaussians_read = splats.len();
    if let Some(min) = args.min_opacity {
        let opacities = splats.opacities.clone();
        splats.retain(|i| sigmoid(opacities[i]) >= min);
    }
    if let Some(max) = args.max_gaussians.filter(|&max| max > 0) {
        keep_largest(&mut splats, max);
    }
    let left_out = gaussians_read - splats.len();
    if left_out > gaussians_read / 10 {
        console.note(&format!(
            "remark: {:.0} % of the Gaussians are left out, and all were optimised together: renders may lose \
             many dB (`dapple eval CAPTURE {}` says how many); `dapple train --max-gaussians` makes so few \
             show more",
            100.0 * left_out as f64 / gaussians_read as f64,
            args.output.display()
        ));
    }
    if let Some(degree) = args.sh_degree {
        splats = splats.with_sh_degree(degree);
    }
    let holds = format.max_sh_degree();
    if splats.sh_degree > holds {
        console.note(&format!(
            "remark: .{} holds spherical harmonics up to degree {holds}, these have degree {}: what changes with \
             the direction of view is lost",
            format.extension(),
            splats.sh_degree
        ));
        splats = splats.with_sh_degree(holds);
    }
    let folders = NewFolders::before(&args.output);
    folders.unless_ok(write(&args.output, &splats, format))?;
    let bytes = std::fs::metadata(&args.output).map_or(0, |file| file.len());
    let summary = Summary {
        output: &args.output,
        gaussians_read,
        gaussians: splats.len(),
        sh_degree: splats.sh_degree,
        bytes,
    };
    if args.json {
        return console.json(&summary);
    }
    console.data(&format!(
        "{}: {} of {}, SH degree {}, {}",
        args.output.display(),
        grouped(summary.gaussians as u64),
        gaussians(gaussians_read as u64),
        summary.sh_degree,
        human_bytes(bytes)
    ))
}

/// Writes the file, and makes its folder.
fn write(path: &Path, splats: &Splats, format: Format) -> Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot make the output folder", folder, e))?;
    }
    splat_file::write(path, splats, format)
}

/// Keeps the `max` Gaussians that cover most, in their order. Ties go to the earlier one.
fn keep_largest(splats: &mut Splats, max: usize) {
    if splats.len() <= max {
        return;
    }
    // Scales are logarithms: the largest cross-section is the product of the two largest axes.
    let coverage = |i: usize| {
        let mut axes = splats.scales[i];
        axes.sort_by(f32::total_cmp);
        sigmoid(splats.opacities[i]) * (axes[1] + axes[2]).exp()
    };
    let mut ranked: Vec<(f32, usize)> = (0..splats.len()).map(|i| (coverage(i), i)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut keep = vec![false; splats.len()];
    for (_, i) in &ranked[..max] {
        keep[*i] = true;
    }
    splats.retain(|i| keep[i]);
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
