//! `dapple profile`: what limits training on this machine, and how far it is from what the hardware
//! can do.
//!
//! 1. [`subject`]: what is trained.
//! 2. [`windows`]: a short run, measured through a [`probe`] between trainer and engine.
//! 3. [`tiles`]: how the load lies over one view.
//! 4. [`facts`]: what stages cost by formula, what the device reaches at most, and all else that is to
//!    be told. `dapple-profile` makes statistics, budget and findings of it.
//! 5. [`output`]: the files.

mod facts;
mod output;
mod probe;
mod subject;
mod tiles;
mod windows;

use crate::commands::bench::parse_size;
use crate::console::Console;
use crate::interrupt;
use crate::options::{CaptureOptions, DeviceOptions, NewFolders, merged_config, refuse_inputs};
use crate::training_display::grouped;
use dapple::AnyEngine;
use dapple::scene::{Error, Result, load, printable};
use dapple::train::config::DensifyPatch;
use dapple::train::{ConfigPatch, Preset, TrainConfig, Trainer};
use dapple_profile::{
    Comparison, Profile, analyse, compare, comparison_markdown, comparison_text, profile_text,
    read_profile,
};
use facts::{About, fact};
use output::Results;
use probe::Probe;
use std::path::{Path, PathBuf};
use subject::Subject;
use tiles::Tiles;
use windows::{Run, Windows, told};

const AFTER_HELP: &str = "\
Trains for a short while and says where the time went: a budget that adds up to wall time, each stage
against the bandwidth and arithmetic that this device was measured to reach, how busy the device was
kept, what was found to hold the run back, and what mending it could give at most.

OUT holds report.html (one page, opens anywhere, no network), PROFILE.md, profile.json (for scripts and
--compare), trace.json (for ui.perfetto.dev) and flamegraph.svg (CPU time of the host; build with
`--profile profiling` to see inlined functions).

Training starts at the capture's points and is young when it is looked at. To profile it later, give
--warmup more steps, or --splats of a finished run.

Examples:
  dapple profile captures/bird
  dapple profile captures/bird --device gpu --warmup 3000
  dapple profile captures/bird --splats out/bird/splats.ply --steps 500 -o before
  dapple profile captures/bird --splats out/bird/splats.ply --compare before/profile.json -o after
  dapple profile --synthetic 165000 --size 516x344
  dapple profile diff before/profile.json after/profile.json";

/// Says what limits training here, and how far it is from the hardware's limit
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    #[arg(required_unless_present = "synthetic", conflicts_with = "synthetic")]
    scene: Option<PathBuf>,

    /// The folder for the results [default: profile/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Replace a profile that is in OUT, and files of the names that it has
    #[arg(long)]
    overwrite: bool,

    /// What the settings are based on [default: standard]
    #[arg(short, long, value_name = "PRESET", value_parser = super::train::preset_parser())]
    preset: Option<String>,

    /// Steps to measure. As many again are taken without the profiler, to tell what it costs
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,

    /// Steps before that
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warmup: u32,

    /// Start at these splats instead of the capture's points: a PLY file, or the folder of a run
    #[arg(long, value_name = "PLY", conflicts_with = "synthetic")]
    splats: Option<PathBuf>,

    /// Train so many made-up Gaussians with the statistics of a trained scene instead of a capture
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    synthetic: Option<u32>,

    /// Size of the photos of --synthetic, pixels
    #[arg(long, value_name = "WxH", default_value = "516x344", value_parser = parse_size, requires = "synthetic")]
    size: [u32; 2],

    /// An earlier profile.json: say what became faster or slower, and whether that is noise
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,

    /// Print profile.json instead of the summary
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Compares two profiles: what became faster or slower, and whether that is noise or the machine's
    /// doing
    Diff(Diff),
}

#[derive(Debug, clap::Args)]
struct Diff {
    /// The earlier profile.json
    old: PathBuf,
    /// The later one
    new: PathBuf,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    if let Some(Verb::Diff(diff)) = &args.verb {
        return run_diff(diff, console);
    }
    // What cannot work is said before anything is measured.
    let old = args.compare.as_deref().map(read_profile).transpose();
    let old = old.map_err(told)?;
    let preset: Option<Preset> = args.preset.as_deref().map(str::parse).transpose()?;
    let mature = args.splats.is_some() || args.synthetic.is_some();
    let config = merged_config(preset, None, args.patch(mature))?;
    let out = args.out_folder()?;
    if let Some(scene) = &args.scene {
        let options = config.training_load_options();
        refuse_inputs(&out, scene, &load::open(scene, &options)?, &options)?;
    }
    let folders = NewFolders::before(&out);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(output::prepare(&out, args.overwrite).and_then(|lock| {
        if let Some(note) = lock.note() {
            console.note(&format!("note: {note}"));
        }
        profile(args, config, &out, old.as_ref(), console)
    }))
}

fn run_diff(args: &Diff, console: &Console) -> Result<()> {
    let old = read_profile(&args.old).map_err(told)?;
    let new = read_profile(&args.new).map_err(told)?;
    let comparison = compare(&old, &new);
    if args.json {
        return console.json(&comparison);
    }
    let text = if args.markdown {
        comparison_markdown(&comparison)
    } else {
        comparison_text(&comparison)
    };
    console.data(text.trim_end())
}

impl Args {
    fn patch(&self, mature: bool) -> ConfigPatch {
        ConfigPatch {
            seed: Some(self.seed),
            // Finished splats have all their harmonics from the first step on.
            sh_every: mature.then_some(1),
            // Made-up splats stay as many as were asked for.
            densify: DensifyPatch {
                enabled: self.synthetic.map(|_| false),
                ..DensifyPatch::default()
            },
            data: self.capture.patch(),
            ..ConfigPatch::default()
        }
    }

    fn out_folder(&self) -> Result<PathBuf> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = match (&self.scene, self.synthetic) {
            (Some(scene), _) => super::train::scene_name(scene)?,
            (None, Some(count)) => format!("synthetic-{count}"),
            (None, None) => "scene".to_owned(),
        };
        Ok(Path::new("profile").join(name))
    }

    fn subject(&self, config: &TrainConfig, console: &Console) -> Result<Subject> {
        match (&self.scene, self.synthetic) {
            (_, Some(count)) => subject::synthetic(count, self.size, &self.device),
            (Some(scene), None) => subject::capture(scene, self.splats.as_deref(), config, console),
            (None, None) => Err(Error::internal("the parser let a missing SCENE pass")),
        }
    }
}

/// Measures, says and writes.
fn profile(
    args: &Args,
    config: TrainConfig,
    out: &Path,
    old: Option<&Profile>,
    console: &Console,
) -> Result<()> {
    let started = dapple_profile::ceilings::utc(std::time::SystemTime::now());
    let subject = args.subject(&config, console)?;
    let mut engine = args.device.open(false, console)?;
    let ceilings = facts::ceilings(&engine, console)?;
    let device = facts::device(&mut engine);
    let on_gpu = matches!(engine, AnyEngine::Gpu(_));
    let probe = Probe::new(engine);
    let mut trainer = Trainer::new(&subject.dataset, config, Box::new(probe.clone()))?;
    if let Some(splats) = &subject.splats {
        trainer.engine_mut().upload(splats, None)?;
    }
    for note in trainer.notes() {
        console.note(&format!("note: {}", printable(note)));
    }
    let grace = interrupt::grace();
    let windows = Run {
        trainer: &mut trainer,
        probe: &probe,
        grace: &grace,
        console,
        on_gpu,
        warm_up: args.warmup,
        steps: args.steps,
    }
    .measure()?;
    console.detail("looking at the tiles of one view");
    let tiles = look_at_tiles(&subject, &trainer, &windows)?;
    let settings = settings(args, &subject, &trainer);
    let setup = probe.with(|engine| {
        About {
            started,
            device,
            settings,
            options: &args.device,
            ceilings,
            warm_up: args.warmup,
            steps: args.steps,
            windows: &windows,
            tiles: tiles.as_ref(),
            engine,
            views: trainer.train_view_count(),
        }
        .setup()
    });
    let (profile, trace) = analyse(&windows.recording, &setup).map_err(told)?;
    let comparison = old.map(|old| compare(old, &profile));
    let results = Results {
        profile: &profile,
        trace: &trace,
        heat: tiles.as_ref().map(|tiles| &tiles.heat),
        flamegraph: windows.flamegraph.as_deref().ok(),
        comparison: comparison.as_ref(),
    };
    let written = output::write(out, &results)?;
    say(
        args,
        &profile,
        comparison.as_ref(),
        &windows,
        &written,
        console,
    )
}

fn say(
    args: &Args,
    profile: &Profile,
    comparison: Option<&Comparison>,
    windows: &Windows,
    written: &[(&str, PathBuf)],
    console: &Console,
) -> Result<()> {
    if let Err(why) = &windows.flamegraph {
        console.note(&format!("note: there is no flamegraph: {why}"));
    }
    if args.json {
        return console.json(profile);
    }
    let mut text = profile_text(profile);
    if let Some(comparison) = comparison {
        text.push('\n');
        text.push_str(&comparison_text(comparison));
    }
    for (what, path) in written {
        text.push_str(&format!("\n{what:<12}{}", path.display()));
    }
    console.data(text.trim_end())
}

/// The first photo that is trained on, with the splats as they were at the end of the window.
fn look_at_tiles(subject: &Subject, trainer: &Trainer, windows: &Windows) -> Result<Option<Tiles>> {
    let held_out: Vec<&str> = trainer
        .eval_views()
        .iter()
        .map(|v| v.name.as_str())
        .collect();
    let view = subject.dataset.views.iter();
    let view = view
        .filter(|view| !held_out.contains(&view.name.as_str()))
        .min_by_key(|v| &v.name);
    let Some(view) = view else { return Ok(None) };
    if windows.splats.is_empty() {
        return Ok(None);
    }
    let step = trainer.schedule().step_settings(windows.steps_done.max(1));
    Tiles::of(view, &windows.splats, &step).map(Some)
}

fn settings(
    args: &Args,
    subject: &Subject,
    trainer: &Trainer,
) -> Vec<dapple_profile::profile::Fact> {
    let config = trainer.config();
    let view = subject.dataset.views.first();
    let size = view.map_or(String::new(), |v| {
        format!("{} x {}", v.camera.width, v.camera.height)
    });
    vec![
        fact("capture", subject.name.clone()),
        fact("photos trained on", trainer.train_view_count().to_string()),
        fact("size of the first photo", size),
        fact(
            "started from",
            match (&args.splats, args.synthetic) {
                (Some(path), _) => path.display().to_string(),
                (None, Some(count)) => format!("{} made-up Gaussians", grouped(u64::from(count))),
                (None, None) => "the capture's points".to_owned(),
            },
        ),
        fact("preset", config.preset.name()),
        fact("steps of the schedule", config.steps.to_string()),
        fact("SH degree at most", config.sh_degree.to_string()),
        fact("weight of SSIM", config.ssim_weight.to_string()),
        fact(
            "storage of SH, moments",
            args.device.precision.unwrap_or_default().to_string(),
        ),
        fact("seed", config.seed.to_string()),
    ]
}
