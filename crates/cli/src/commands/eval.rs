//! `dapple eval`: scores splats against photos they were not trained on.

use crate::console::Console;
use crate::options::{CaptureOptions, DeviceOptions, config_beside, split};
use crate::pictures::Picture;
use dapple::contract::RenderSettings;
use dapple::scene::{Dataset, Error, Result, View, load, ply};
use dapple::train::{ConfigPatch, EvalReport, RenderNames, TrainConfig, evaluate};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The photos are scored as the run saw them: if a config.toml lies beside SPLATS, its photo size,
hold-out split and background are taken, and options here change them.

PSNR is the mean over the images of 10 log10(1 / mean squared error); SSIM uses an 11x11 window
(sigma 1.5) that lies inside the image. Both as in the 3DGS paper's evaluation.

Examples:
  dapple eval captures/bird out/bird/splats.ply
  dapple eval captures/bird out/bird/splats.ply --json | jq .psnr
  dapple eval captures/bird out/bird/splats.ply -o compare    photo and render side by side";

/// Scores splats against the held-out photos: PSNR and SSIM
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    scene: PathBuf,

    /// The splats, a PLY file
    splats: PathBuf,

    /// Print one JSON object with psnr, ssim and the list of images
    #[arg(long)]
    json: bool,

    /// Print a Markdown table, for a report or a README
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Write photo and render side by side into this folder
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Scores<'a> {
    scene: &'a Path,
    splats: &'a Path,
    #[serde(flatten)]
    report: &'a EvalReport,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let flags = ConfigPatch {
        data: args.capture.patch(),
        ..ConfigPatch::default()
    };
    let config = config_beside(&args.splats, flags, console)?;
    // Before the photos: a mistake in the name of the splats shows at once.
    let splats = ply::read(&args.splats)?;
    let dataset = load_held_out(&args.scene, &config, console)?;
    let settings = RenderSettings {
        background: config.background.map(|v| v as f32),
        sh_degree: splats.sh_degree,
        max_gaussians_per_tile: config.max_gaussians_per_tile,
        near: config.near_plane(),
        depth: false,
    };
    let mut engine = args.device.engine(console)?;
    engine.upload(&splats, None)?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot make the output folder", folder, e))?;
    }
    let bar = console.bar(dataset.views.len() as u64, "scoring [{bar:30}] {pos}/{len}");
    let mut names = RenderNames::default();
    let views: Vec<&View> = dataset.views.iter().collect();
    let report = evaluate(engine.as_mut(), &views, &settings, &mut |view, rendered| {
        bar.inc(1);
        let Some(folder) = &args.out else {
            return Ok(());
        };
        let photo = Picture::from_photo(&view.photo, settings.background);
        let both = photo.beside(&Picture::from_rendered(rendered))?;
        both.save(&folder.join(names.name(&view.name)))
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        return console.json(&Scores {
            scene: &args.scene,
            splats: &args.splats,
            report: &report,
        });
    }
    console.data(table(&report, args.markdown).trim_end())
}

/// The held-out photos alone: the others are not decoded.
fn load_held_out(scene: &Path, config: &TrainConfig, console: &Console) -> Result<Dataset> {
    let options = config.load_options();
    let mut capture = load::open(scene, &options)?;
    let held_out = split(&capture.images, &config.data).eval;
    if held_out.is_empty() {
        return Err(Error::input("no photo is held out: there is nothing to score")
            .at_path(scene)
            .hint("hold some out with --eval-every 8; a capture of a single photo cannot be scored"));
    }
    let mut index = 0..;
    capture.images.retain(|_| {
        index
            .next()
            .is_some_and(|i| held_out.binary_search(&i).is_ok())
    });
    load::decode(capture, &options, &console.progress())
}

fn table(report: &EvalReport, markdown: bool) -> String {
    let longest = report
        .images
        .iter()
        .map(|image| image.name.chars().count())
        .max();
    let width = longest.unwrap_or(0).max("image".len());
    let (edge, between) = if markdown { ("|", "|") } else { ("", "") };
    let mut text = String::new();
    let mut row = |name: &str, psnr: &str, ssim: &str| {
        let _ = writeln!(
            text,
            "{edge} {name:<width$} {between} {psnr:>8} {between} {ssim:>7} {edge}"
        );
    };
    row("image", "PSNR dB", "SSIM");
    if markdown {
        row(&"-".repeat(width), "-------:", "------:");
    }
    for image in &report.images {
        row(
            &image.name,
            &format!("{:.3}", image.psnr),
            &format!("{:.4}", image.ssim),
        );
    }
    row(
        "mean",
        &format!("{:.3}", report.psnr),
        &format!("{:.4}", report.ssim),
    );
    text
}
