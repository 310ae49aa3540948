//! `dapple train`: a capture into splats.

use crate::console::Console;
use crate::interrupt;
use crate::machine;
use crate::options::{CaptureOptions, DeviceOptions, NewFolders, merged_config, parse_colour};
use crate::training_display::{TrainingDisplay, clock, grouped};
use dapple::contract::Engine;
use dapple::scene::{Error, ErrorKind, MAX_SH_DEGREE, Result, load};
use dapple::train::config::DensifyPatch;
use dapple::train::{
    CapLosses, ConfigPatch, Ending, Outcome, Preset, RunFolder, Seconds, Strategy, TrainConfig,
    Trainer, train_into,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Settings come from the preset, then the configuration file, then the options here: the later wins.
Schedules (densification, learning rates, SH degree) scale with --steps. --print-config writes the
result, commented, to stdout; given back with --config it makes the same run.

OUT holds splats.ply, config.toml, metrics.json, metrics.csv and renders/ (each held-out photo
beside its render). The first Ctrl-C ends the run and saves all of it; the second ends the program
at once.

The same capture, configuration and seed give the same splats, bit for bit, on any number of
threads.

Examples:
  dapple train captures/bird                            30 000 steps, into out/bird
  dapple train captures/bird --preset quick             7 000 steps: a good first look
  dapple train captures/bird --preset m10 --downscale 2 --max-gaussians 200000
  dapple train --preset m10 --print-config > mine.toml
  dapple train captures/bird --config mine.toml -o out/mine";

/// Trains splats from a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    #[arg(required_unless_present = "print_config")]
    scene: Option<PathBuf>,

    /// The folder for the results [default: out/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// What the settings are based on [default: standard, the recipe as published]
    #[arg(short, long, value_name = "PRESET", value_parser = preset_parser())]
    preset: Option<String>,

    /// A configuration file (TOML), for settings that have no option here
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Training steps, one photo each [default: the preset's]. Schedules scale with it
    #[arg(long, value_name = "N")]
    steps: Option<u32>,

    /// Seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Gaussians at the start, drawn from the sparse points [default: one per point]. A COLMAP capture
    /// that has lost its points is trained from so many random ones
    #[arg(long, value_name = "N")]
    initial_gaussians: Option<usize>,

    /// Never hold more Gaussians than this, 0 for no limit [default: the preset's]. Bounds memory
    /// and time
    #[arg(long, value_name = "N")]
    max_gaussians: Option<usize>,

    /// How Gaussians are added and removed [default: adc]. budgeted and mcmc work towards
    /// --max-gaussians; without it, one for every 100 pixels of the photos, at most a million
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_parser())]
    strategy: Option<String>,

    /// Grow where pixels disagree too: sums absolute gradients (AbsGS), with a threshold of 0.0008
    /// instead of 0.0002. For adc and budgeted
    #[arg(long)]
    absgrad: bool,

    /// Weight of the mean opacity in the loss [default: 0; mcmc 0.01]. Fades what photos do not need
    #[arg(long, value_name = "X")]
    opacity_reg: Option<f64>,

    /// Weight of the mean size of Gaussians, as a fraction of the scene's extent, in the loss [default: 0;
    /// mcmc 0.01]
    #[arg(long, value_name = "X")]
    scale_reg: Option<f64>,

    /// Highest degree of spherical harmonics, 0 to 3 [default: 3]. 0 has no view dependence and a
    /// quarter of the size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)))]
    sh_degree: Option<u8>,

    /// Colour behind everything and behind transparent photos, each 0 to 1 [default: 0,0,0, black]
    #[arg(long, value_name = "R,G,B", value_parser = parse_colour)]
    background: Option<[f64; 3]>,

    /// Blend at most this many Gaussians in a tile of 16x16 pixels, nearest first; 0 = all [default:
    /// 0, but 2048 on GPUs whose drivers kill long work: `dapple doctor` names them]
    #[arg(long, value_name = "N")]
    max_gaussians_per_tile: Option<u32>,

    /// Replace the results that OUT holds
    #[arg(long)]
    overwrite: bool,

    /// Write the merged configuration to stdout and stop
    #[arg(long)]
    print_config: bool,

    /// Print one JSON object when done
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

pub fn preset_parser() -> clap::builder::PossibleValuesParser {
    Preset::ALL
        .map(|preset| clap::builder::PossibleValue::new(preset.name()).help(preset.about()))
        .into()
}

fn strategy_parser() -> clap::builder::PossibleValuesParser {
    Strategy::ALL
        .map(|s| clap::builder::PossibleValue::new(s.name()).help(s.about()))
        .into()
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let preset = args.preset.as_deref().map(str::parse).transpose()?;
    let config = merged_config(preset, args.config.as_deref(), args.patch()?)?;
    if args.print_config {
        return console.data(config.to_toml()?.trim_end());
    }
    let Some(scene) = &args.scene else {
        return Err(Error::internal("the parser let a missing SCENE pass"));
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => Path::new("out").join(scene_name(scene)?),
    };
    let device = DeviceOptions {
        // Whoever writes 0 wants all, on any device.
        default_cap: args.max_gaussians_per_tile.filter(|&cap| cap == 0),
        ..args.device.clone()
    };
    let engine = device.engine(console)?;
    let done = train(scene, &out, config, args.overwrite, engine, console)?;
    if args.json {
        console.json(&done.summary)?;
    } else {
        console.data(&done.lines())?;
    }
    done.interruption().map_or(Ok(()), Err)
}

impl Args {
    /// The options as a layer of the configuration.
    fn patch(&self) -> Result<ConfigPatch> {
        Ok(ConfigPatch {
            steps: self.steps,
            seed: self.seed,
            initial_gaussians: self.initial_gaussians,
            max_gaussians: self.max_gaussians,
            sh_degree: self.sh_degree,
            background: self.background,
            max_gaussians_per_tile: self.max_gaussians_per_tile,
            data: self.capture.patch(),
            densify: DensifyPatch {
                strategy: self.strategy.as_deref().map(str::parse).transpose()?,
                absgrad: self.absgrad.then_some(true),
                opacity_reg: self.opacity_reg,
                scale_reg: self.scale_reg,
                ..DensifyPatch::default()
            },
            ..ConfigPatch::default()
        })
    }
}

/// What the results are called after.
fn scene_name(scene: &Path) -> Result<String> {
    let whole = scene
        .canonicalize()
        .map_err(|e| Error::io("cannot open the capture", scene, e))?;
    let folder = if whole.is_file() {
        whole.parent().unwrap_or(&whole)
    } else {
        &whole
    };
    let name = folder
        .file_name()
        .map_or("scene".into(), |name| name.to_string_lossy());
    Ok(name.into_owned())
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Summary {
    out: PathBuf,
    splats: PathBuf,
    metrics: PathBuf,
    renders: PathBuf,
    ending: Ending,
    steps: u32,
    gaussians: u64,
    psnr: Option<f64>,
    ssim: Option<f64>,
    steps_per_second: f64,
    seconds: Seconds,
    cap: CapLosses,
    peak_memory_bytes: Option<u64>,
}

/// A finished or interrupted run.
pub struct Done {
    /// What it came to.
    pub summary: Summary,
}

impl Done {
    fn new(folder: &RunFolder, trainer: &Trainer, outcome: &Outcome) -> Self {
        let seconds = trainer.history().seconds;
        Self {
            summary: Summary {
                out: folder.path().to_owned(),
                splats: folder.splats_path(),
                metrics: folder.metrics_path(),
                renders: folder.renders_path(),
                ending: outcome.ending,
                steps: outcome.steps,
                gaussians: outcome.gaussians,
                psnr: outcome.eval.as_ref().map(|eval| eval.psnr),
                ssim: outcome.eval.as_ref().map(|eval| eval.ssim),
                steps_per_second: f64::from(outcome.steps) / seconds.train.max(f64::MIN_POSITIVE),
                seconds,
                cap: trainer.history().cap,
                peak_memory_bytes: machine::peak_memory_bytes(),
            },
        }
    }

    /// The results for people.
    pub fn lines(&self) -> String {
        let s = &self.summary;
        let scores = match (s.psnr, s.ssim) {
            (Some(psnr), Some(ssim)) => {
                format!("PSNR {psnr:.2} dB, SSIM {ssim:.4} on the held-out photos")
            }
            _ => "none: no photo was held out".to_owned(),
        };
        let memory = s.peak_memory_bytes.map_or(String::new(), |b| {
            format!(", {} of memory at most", machine::human_bytes(b))
        });
        let mut lines = vec![
            format!("scores    {scores}"),
            format!(
                "run       {} steps in {}, {:.1} it/s, {} Gaussians{memory}",
                s.steps,
                clock(s.seconds.train),
                s.steps_per_second,
                grouped(s.gaussians)
            ),
        ];
        if s.cap.steps > 0 {
            lines.push(format!(
                "cap       cut in {} steps, up to {} pairs of Gaussian and tile in one; the largest \
                 transmittance lost is {:.4}",
                s.cap.steps,
                grouped(s.cap.most_instances),
                s.cap.largest_transmittance
            ));
        }
        lines.extend([
            format!("splats    {}", s.splats.display()),
            format!("metrics   {}", s.metrics.display()),
        ]);
        if s.psnr.is_some() {
            lines.push(format!("renders   {}", s.renders.display()));
        }
        lines.join("\n")
    }

    /// The error that an interrupted run ends the program with.
    pub fn interruption(&self) -> Option<Error> {
        match self.summary.ending {
            Ending::Stopped(step) => Some(
                Error::new(
                    ErrorKind::Interrupted,
                    format!("stopped after {step} steps; everything up to there is saved"),
                )
                .at_path(&self.summary.out),
            ),
            _ => None,
        }
    }
}

/// Trains `scene` into the folder `out`.
pub fn train(
    scene: &Path,
    out: &Path,
    config: TrainConfig,
    overwrite: bool,
    engine: Box<dyn Engine>,
    console: &Console,
) -> Result<Done> {
    let has_results = ["splats.ply", "metrics.json"]
        .iter()
        .any(|name| out.join(name).exists());
    if has_results && !overwrite {
        return Err(Error::input("the output folder holds the results of a run")
            .at_path(out)
            .hint("name another with --out, or give --overwrite to replace them"));
    }
    if out.exists() && !out.is_dir() {
        let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
        return Err(Error::io("cannot make the output folder", out, source));
    }
    let folders = NewFolders::before(out);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(train_new(scene, out, config, engine, console))
}

fn train_new(
    scene: &Path,
    out: &Path,
    config: TrainConfig,
    engine: Box<dyn Engine>,
    console: &Console,
) -> Result<Done> {
    // Before the photos are read: better to fail now than after an hour.
    let folder = RunFolder::create(out)?;
    let dataset = load(scene, &config.load_options(), &console.progress())?;
    for note in &dataset.notes {
        console.note(&format!("note: {note}"));
    }
    let steps = config.last_step();
    let mut trainer = Trainer::new(&dataset, config, engine)?;
    drop(dataset);
    for note in trainer.notes() {
        console.note(&format!("note: {note}"));
    }
    console.note(&format!(
        "training on {} photos, {} held out, from {} Gaussians: {steps} steps into {}",
        trainer.train_view_count(),
        trainer.eval_views().len(),
        grouped(trainer.gaussians()),
        out.display()
    ));
    let grace = interrupt::grace();
    let mut display = TrainingDisplay::new(console, &grace, steps);
    let outcome = train_into(&folder, &mut trainer, &mut display);
    display.finish();
    Ok(Done::new(&folder, &trainer, &outcome?))
}
