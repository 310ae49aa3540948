//! `dapple profile`: measures what limits training on this machine, compared with the hardware's peak rates.
//! [`dapple_instruments::profile`] measures; this file has the options, the folder and the messages.

mod ops;

use super::bench::{parse_size, remark_limits};
use super::train::load_capture;
use crate::ceilings;
use crate::console::{Console, ProfileProgress};
use crate::interrupt;
use crate::options::{
    DeviceOptions, NewFolders, merged_config, read_splats, refuse_existing, refuse_inputs,
    scene_name, splats_file,
};
use crate::ranks;
use crate::settings_args::{Profiled, SettingsArgs};
use crate::training_display::grouped;
use dapple::BoxedEngine;
use dapple::scene::atomic::{remove_leftovers, try_writing};
use dapple::scene::{Error, Result, load, printable};
use dapple::train::config::DensifyPatch;
use dapple::train::{ConfigPatch, RunLock, TrainConfig};
use dapple_base::numbers::parse_bytes;
use dapple_instruments::profile::files::{self, Results};
use dapple_instruments::profile::{ProfileTarget, Session, Steps, Told, fact, synthetic};
use dapple_profile::profile::{Fact, Program};
use dapple_profile::{
    Comparison, Profile, compare, comparison_markdown, comparison_text, profile_text, read_profile,
};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Trains for a short time and reports a time budget that adds up to wall time, each stage against
the measured bandwidth and arithmetic of this device, and the bottlenecks that were found.

docs/PROFILING.md explains the report and its files.

Examples:
  dapple profile captures/bird
  dapple profile captures/bird --device gpu --warmup 3000
  dapple profile captures/bird --splats out/bird/splats.ply --steps 500 -o before
  dapple profile captures/bird --splats out/bird/splats.ply --compare before/profile.json -o after
  dapple profile --synthetic 165000 --size 516x344
  dapple profile captures/bird --ranks-in-process 2 --views-per-step 8
  dapple profile diff before/profile.json after/profile.json
  dapple profile ops                           tensor operations: LoRA, norms, products";

/// Measures what limits training here, compared with the hardware's peak rates
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Capture: a COLMAP, Nerfstudio or Blender folder, or its transforms.json
    #[arg(
        value_name = "CAPTURE",
        required_unless_present = "synthetic",
        conflicts_with = "synthetic",
        help_heading = "Input"
    )]
    scene: Option<PathBuf>,

    /// Start at these splats instead of the capture's points: a splat file or a run's folder
    #[arg(
        long,
        value_name = "PLY",
        conflicts_with = "synthetic",
        help_heading = "Input"
    )]
    splats: Option<PathBuf>,

    /// Train N synthetic Gaussians with the statistics of a trained scene instead of a capture
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = "Input")]
    synthetic: Option<u32>,

    /// Size of the photos of --synthetic, pixels
    #[arg(long, value_name = "WxH", default_value = "516x344", value_parser = parse_size, requires = "synthetic", help_heading = "Input", hide_short_help = true)]
    size: [u32; 2],

    /// Steps to measure, and again to run without the profiler, for its overhead. A step has --views-per-step photos
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Length and size")]
    steps: u32,

    /// Steps before the measurement
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(..=1_000_000), help_heading = "Length and size")]
    warmup: u32,

    /// Random seed
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        help_heading = "Length and size",
        hide_short_help = true
    )]
    seed: u64,

    /// Memory for decoded photos, as for `dapple train`
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Input",
        hide_short_help = true)]
    photo_memory: Option<u64>,

    #[command(flatten)]
    capture: SettingsArgs<Profiled>,

    /// Folder for the results [default: profile/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER", help_heading = "Output")]
    out: Option<PathBuf>,

    /// Replace a profile in OUT, and other files with its names
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Earlier profile.json to compare with: lists faster and slower stages, and noise
    #[arg(long, value_name = "OLD.json", help_heading = "Output")]
    compare: Option<PathBuf>,

    /// Print profile.json instead of the summary
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,

    /// Share the Gaussians among N ranks of this process, as `dapple train` does: the budget has a mean rank, and each
    /// rank has a row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "Device", hide_short_help = true)]
    ranks_in_process: Option<u32>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Compares two profiles: faster and slower stages, noise, and changes of the machine
    Diff(Diff),
    Ops(ops::Args),
}

#[derive(Debug, clap::Args)]
struct Diff {
    /// Earlier profile.json
    old: PathBuf,
    /// Later profile.json
    new: PathBuf,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    match &args.verb {
        Some(Verb::Diff(diff)) => return run_diff(diff, console),
        Some(Verb::Ops(args)) => return ops::run(args, console),
        None => {}
    }
    // Invalid input fails before the measurement.
    let old = args.compare.as_deref().map(read_profile).transpose()?;
    let mature = args.splats.is_some() || args.synthetic.is_some();
    let config = merged_config(None, args.patch(mature))?;
    let out = args.out_folder()?;
    if let Some(scene) = &args.scene {
        let options = config.training_load_options();
        refuse_inputs(&out, scene, &load::open(scene, &options)?, &options)?;
    }
    let folders = NewFolders::before(&out);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(prepare(&out, args.overwrite).and_then(|lock| {
        if let Some(note) = lock.note() {
            console.note(&format!("note: {note}"));
        }
        profile(args, config, &out, old.as_ref(), console)
    }))
}

fn run_diff(args: &Diff, console: &Console) -> Result<()> {
    let old = read_profile(&args.old)?;
    let new = read_profile(&args.new)?;
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
            // Splats from a file have all SH degrees from the first step on.
            sh_every: mature.then_some(1),
            // The number of synthetic splats stays constant.
            densify: DensifyPatch {
                enabled: self.synthetic.map(|_| false),
                ..DensifyPatch::default()
            },
            ..self.capture.patch()
        }
    }

    fn out_folder(&self) -> Result<PathBuf> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = match (&self.scene, self.synthetic) {
            (Some(scene), _) => scene_name(scene)?,
            (None, Some(count)) => format!("synthetic-{count}"),
            (None, None) => "scene".to_owned(),
        };
        Ok(Path::new("profile").join(name))
    }

    /// Opens the engine, with its ranks.
    fn engine(&self, config: &TrainConfig, console: &Console) -> Result<BoxedEngine> {
        if ranks::are_joined() {
            return Err(Error::unsupported("ranks of MPI cannot be profiled yet")
                .hint("use --ranks-in-process"));
        }
        let device = DeviceOptions {
            ranks: self.ranks_in_process,
            photo_memory: self.photo_memory,
            ..self.device.clone()
        };
        device.engine_for(config, console)
    }

    fn subject(&self, config: &TrainConfig, console: &Console) -> Result<ProfileTarget> {
        match (&self.scene, self.synthetic) {
            (_, Some(count)) => synthetic(count, self.size, &self.device.opener()),
            (Some(scene), None) => self.loaded(scene, config, console),
            (None, None) => Err(Error::internal("the parser let a missing CAPTURE pass")),
        }
    }

    /// Loads a capture, and the splats to start from.
    fn loaded(
        &self,
        scene: &Path,
        config: &TrainConfig,
        console: &Console,
    ) -> Result<ProfileTarget> {
        let splats = self.splats.as_deref();
        let splats = splats.map(|path| Ok(read_splats(&splats_file(path)?, console)?.0));
        let splats = splats.transpose()?;
        let dataset = load_capture(scene, config, self.photo_memory, console)?;
        let whole = scene.canonicalize().unwrap_or_else(|_| scene.to_owned());
        let name = whole
            .file_name()
            .map_or("scene".into(), |name| name.to_string_lossy());
        Ok(ProfileTarget {
            name: name.into_owned(),
            dataset,
            splats,
        })
    }
}

/// Creates the folder and checks that it is writable, before the measurement. The returned lock keeps other processes
/// out.
fn prepare(folder: &Path, overwrite: bool) -> Result<RunLock> {
    for name in files::NAMES {
        refuse_existing(&folder.join(name), overwrite)?;
    }
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io("cannot make the folder for the profile", folder, e))?;
    try_writing(folder)
        .map_err(|e| Error::io("cannot write into the folder for the profile", folder, e))?;
    let lock = RunLock::exclusive(folder)?;
    remove_leftovers(folder);
    Ok(lock)
}

/// Measures, prints and writes the profile.
fn profile(
    args: &Args,
    config: TrainConfig,
    out: &Path,
    old: Option<&Profile>,
    console: &Console,
) -> Result<()> {
    let program = program();
    let subject = args.subject(&config, console)?;
    let mut engine = args.engine(&config, console)?;
    let instruments = engine.instruments();
    let instruments = instruments.ok_or_else(|| Error::internal("the engine measures nothing"))?;
    let (ceilings, spread) = ceilings::for_engine(instruments)?;
    if let Some(spread) = spread {
        remark_limits(spread, console);
    }
    let mut session = Session::new(&subject, config, engine)?;
    for note in session.trainer().notes() {
        console.note(&format!("note: {}", printable(note)));
    }
    let grace = interrupt::grace();
    let steps = Steps {
        warm_up: args.warmup,
        measured: args.steps,
    };
    let measured = session.measure(steps, &ProfileProgress::new(console, &grace))?;
    console.detail("looking at the tiles of one view");
    let told = Told {
        program,
        settings: settings(args, &subject, &session),
        ceilings,
    };
    let profiled = session.analyse(measured, told)?;
    let comparison = old.map(|old| compare(old, &profiled.profile));
    let results = Results {
        profile: &profiled.profile,
        trace: &profiled.trace,
        heat: profiled.heat.as_ref(),
        flamegraph: profiled.flamegraph.as_deref().ok(),
        comparison: comparison.as_ref(),
    };
    let written = files::write(out, &results)?;
    let shown = (&profiled.profile, &profiled.flamegraph);
    say(args.json, shown, comparison.as_ref(), &written, console)
}

/// Returns this program's version and build.
fn program() -> Program {
    Program {
        name: "dapple".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("DAPPLE_COMMIT").map(str::to_owned),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started: dapple_profile::ceilings::utc(std::time::SystemTime::now()),
    }
}

fn say(
    json: bool,
    (profile, flamegraph): (&Profile, &Result<String, String>),
    comparison: Option<&Comparison>,
    written: &[(&str, PathBuf)],
    console: &Console,
) -> Result<()> {
    if let Err(why) = flamegraph {
        console.note(&format!("note: there is no flamegraph: {why}"));
    }
    if json {
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

/// Returns the facts about the run's setup.
fn settings(args: &Args, subject: &ProfileTarget, session: &Session<'_>) -> Vec<Fact> {
    let trainer = session.trainer();
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
                (None, Some(count)) => format!("{} synthetic Gaussians", grouped(u64::from(count))),
                (None, None) => "the capture's points".to_owned(),
            },
        ),
        fact("preset", config.preset.name()),
        fact("photos of a step", config.views_per_step.to_string()),
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
