//! `dapple train`: a capture into splats.

mod resume;
mod time_budget;

use crate::console::Console;
use crate::flamegraph::Flamegraph;
use crate::interrupt;
use crate::machine;
use crate::options::{
    CaptureOptions, DeviceOptions, NewFolders, merged_config, merged_config_for, parse_background,
    split,
};
use crate::photo_memory::{self, parse_bytes};
use crate::training_display::{TrainingDisplay, clock, grouped};
use dapple::contract::Engine;
use dapple::scene::load::{self, load};
use dapple::scene::{Dataset, Error, ErrorKind, MAX_SH_DEGREE, Result};
use dapple::train::config::{
    AppearancePatch, Background, DataPatch, DensifyPatch, DepthPatch, EvalPatch, PosesPatch,
};
use dapple::train::time_budget::Pacer;
use dapple::train::{
    AppearanceModel, CapLosses, ConfigPatch, DepthSource, Ending, ImageScore, Launch, Outcome,
    PhotoTraffic, Preset, RunFolder, Seconds, Strategy, TrainConfig, Trainer, WatchReport,
    train_into,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Settings come from the preset, then the configuration file, then the options here: the later wins.
Schedules (densification, learning rates, SH degree) scale with --steps. --print-config writes the
result, commented, to stdout; given back with --config it makes the same run.

OUT holds splats.ply, config.toml, metrics.json, metrics.csv, renders/ (each held-out photo beside its
render), errors/ (where they differ, blue to red), with --appearance appearance.safetensors, and with
--refine-poses cameras.json (in Nerfstudio's schema). The first Ctrl-C ends the run and saves all of it;
the second ends the program at once.

--time-budget depends on how fast this machine is now; what came of it is in OUT/config.toml, steps,
photo size, Gaussians and changes of pace: --config OUT/config.toml repeats that run bit for bit, in
whatever time it takes. A run that goes on with --resume keeps its last pace and looks at no clock.

Until the run is finished OUT also holds checkpoint.safetensors, written now and then and on Ctrl-C,
three times the size of the splats. `dapple train --resume OUT` goes on from it, also after a crash:
on the same device to the same splats, bit for bit, as a run that was never stopped. Capture, device
and settings are those of the run, and need not be repeated; others are refused.

The same capture, configuration and seed give the same splats, bit for bit, on any number of
threads.

--flamegraph shows functions that were inlined only where the program was built with debug
information: cargo build --profile profiling is release speed with it. Of a GPU it shows what the
host does for it.

Examples:
  dapple train captures/bird                            as long as suits it, into out/bird
  dapple train captures/bird --preset quick             7 000 steps: a good first look
  dapple train captures/bird --time-budget 5m            the best that five minutes give
  dapple train captures/bird --appearance exposure      photos of changing brightness
  dapple train captures/bird --preset m10 --downscale 2 --max-gaussians 200000
  dapple train --preset m10 --print-config > mine.toml
  dapple train captures/bird --config mine.toml -o out/mine
  dapple train --resume out/bird                        after Ctrl-C, a crash, or --stop-at
  dapple train captures/bird --depth-from points        few photos: sparse points say depths
  dapple train captures/bird --preset m8 --flamegraph bird.svg";

/// Trains splats from a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    #[arg(required_unless_present_any = ["print_config", "resume"])]
    scene: Option<PathBuf>,

    /// The folder for the results [default: out/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// What the settings are based on [default: standard]
    #[arg(short, long, value_name = "PRESET", value_parser = preset_parser())]
    preset: Option<String>,

    /// A configuration file (TOML), for settings that have no option here
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Training steps, one photo each [default: the preset's; standard takes 150 for each photo, at
    /// least 7 000 and at most 30 000, since beyond that photos are learned by heart]. Schedules scale
    /// with it, up to --schedule-steps
    #[arg(long, value_name = "N")]
    steps: Option<u32>,

    /// Steps that the schedule is scaled to; those after it learn ever less [default: all, but no more
    /// than suit the capture, 150 for each photo, 7 000 to 30 000, so that a longer run does no harm]
    #[arg(long, value_name = "N")]
    schedule_steps: Option<u32>,

    /// Train for this long, for example 60s, 5m or 1h30m, instead of --steps: times some steps on the
    /// device, chooses steps, photo size and Gaussians, and keeps to it. Reading photos, calibration and
    /// scoring are not counted
    #[arg(long, value_name = "TIME", value_parser = time_budget::parse_duration,
        conflicts_with_all = ["steps", "stop_at", "resume", "print_config"])]
    time_budget: Option<f64>,

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

    /// How Gaussians are added and removed [default: mcmc from 5 000 steps on, where it scores best; adc
    /// below, where it has no time to grow]. budgeted and mcmc work towards --max-gaussians; without it,
    /// five for each sparse point (up to ten where the schedule is shorter than 14 000 steps), at most one
    /// for every 100 pixels of the photos, and a million
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_parser())]
    strategy: Option<String>,

    /// Grow where pixels disagree too: sums absolute gradients (AbsGS), with a threshold of 0.0008
    /// instead of 0.0002. For adc and budgeted
    #[arg(long)]
    absgrad: bool,

    /// What photos differ in, learnt beside the splats and kept in OUT/appearance.safetensors [default:
    /// none: where photos agree it only costs, and splats that can do without it show in any viewer what
    /// was scored]
    #[arg(long, value_name = "MODEL", value_parser = appearance_parser())]
    appearance: Option<String>,

    /// Weight of the mean opacity in the loss [default: 0; mcmc 0.01]. Fades what photos do not need
    #[arg(long, value_name = "X")]
    opacity_reg: Option<f64>,

    /// Weight of the mean size of Gaussians, as a fraction of the scene's extent, in the loss [default: 0;
    /// mcmc 0.02]
    #[arg(long, value_name = "X")]
    scale_reg: Option<f64>,

    /// Set every N-th training photo aside to watch for overfitting, 0 for none: they are not trained
    /// on, and the splats that show them best are the result [default: 16 where the schedule is more
    /// than twice as long as suits this capture, else 0]
    #[arg(long, value_name = "N")]
    watch_every: Option<usize>,

    /// Supervise depth too [default: none]: by the sparse points in the photos that found them, or by
    /// depth images. Helps where photos are few
    #[arg(long, value_name = "SOURCE", value_parser = depth_parser())]
    depth_from: Option<String>,

    /// Weight of the relative error of depths in the loss, falling to a hundredth of it over the run
    /// [default: 0.1]
    #[arg(long, value_name = "X")]
    depth_weight: Option<f64>,

    /// Folder of the depth images: files of the photos' names, .exr (world units along the camera's
    /// axis) or 16-bit .png [default: what transforms.json names, else depths/ or depth/ beside the
    /// photos]
    #[arg(long, value_name = "FOLDER")]
    depths: Option<PathBuf>,

    /// World units of one step of a depth PNG [default: 0.001]
    #[arg(long, value_name = "X")]
    depth_unit: Option<f64>,

    /// Depth images are inverse depths of unknown scale and shift, as monocular estimators write them:
    /// fit both to the sparse points, photo by photo
    #[arg(long)]
    depth_relative: bool,

    /// Refine the poses of the photos while training, for captures whose poses are off; cameras.json
    /// holds the result. Held-out photos are scored twice: as their poses are given, and aligned, with
    /// each pose fitted to the finished splats [default: off]
    #[arg(long)]
    refine_poses: bool,

    /// Highest degree of spherical harmonics, 0 to 3 [default: 3]. 0 has no view dependence and a
    /// quarter of the size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)))]
    sh_degree: Option<u8>,

    /// What is behind everything and behind transparent photos: random, black, white or a colour,
    /// each number 0 to 1 [default: black; with --mask-mode segment random, another colour each step,
    /// so that splats cannot paint it]. Scores are over that colour, over black for random
    #[arg(long, value_name = "random|black|white|R,G,B", value_parser = parse_background)]
    background: Option<Background>,

    /// Filter against aliasing (Mip-Splatting), for renders of other sizes than the photos: half of it gains
    /// 2 to 4 dB, twice of it 0.4 to 1.5. Off by default: viewers that filter otherwise show such splats
    /// too thick and too bright, nearly 2 dB worse
    #[arg(long)]
    antialias: bool,

    /// Blend at most this many Gaussians in a tile of 16x16 pixels, nearest first; 0 = all [default:
    /// 0, but 2048 on GPUs whose drivers kill long work: `dapple doctor` names them]
    #[arg(long, value_name = "N")]
    max_gaussians_per_tile: Option<u32>,

    /// Memory that decoded photos may take, for example 4GiB, on the host and, up to 4 GiB, on the GPU
    /// [default: half of the memory that is free]. Photos beyond it are read again by threads that run
    /// ahead of training; the splats are the same
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    photo_memory: Option<u64>,

    /// Write a checkpoint every N steps, 0 for none but on Ctrl-C [default: every 2 minutes, and more
    /// rarely where one takes longer than 1.2 s: they never cost more than 1 % of a long run]
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<u32>,

    /// Stop after step N as on Ctrl-C: everything is saved and --resume goes on. The schedule stays
    /// that of the whole run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stop_at: Option<u32>,

    /// Go on with the run in the folder OUT from its last checkpoint
    #[arg(long, value_name = "OUT", conflicts_with_all = ["out", "overwrite", "print_config"])]
    resume: Option<PathBuf>,

    /// Replace the results that OUT holds
    #[arg(long)]
    overwrite: bool,

    /// Write the merged configuration to stdout and stop
    #[arg(long)]
    print_config: bool,

    /// Sample where the CPU time of the run goes, on all threads, and write a flamegraph that any
    /// browser opens; also after Ctrl-C. Needs no root. Not on Windows
    #[arg(long, value_name = "FILE.svg")]
    flamegraph: Option<PathBuf>,

    /// Weights of LPIPS: the held-out photos are scored by it too when the run ends. `dapple eval --help`
    /// says more [default: no LPIPS]
    #[arg(long, value_name = "FILE.safetensors")]
    lpips: Option<PathBuf>,

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

fn depth_parser() -> clap::builder::PossibleValuesParser {
    DepthSource::ALL
        .map(|s| clap::builder::PossibleValue::new(s.name()).help(s.about()))
        .into()
}

fn strategy_parser() -> clap::builder::PossibleValuesParser {
    Strategy::ALL
        .map(|s| clap::builder::PossibleValue::new(s.name()).help(s.about()))
        .into()
}

fn appearance_parser() -> clap::builder::PossibleValuesParser {
    AppearanceModel::ALL
        .map(|m| clap::builder::PossibleValue::new(m.name()).help(m.about()))
        .into()
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let done = match &args.resume {
        Some(out) => resume::resume(args, out, console)?,
        None => match begin(args, console)? {
            Some(done) => done,
            None => return Ok(()),
        },
    };
    if args.json {
        console.json(&done.summary)?;
    } else {
        console.data(&done.lines())?;
    }
    if done.as_asked {
        let Summary { steps, out, .. } = &done.summary;
        console.note(&format!(
            "stopped after step {steps} as asked; `dapple train --resume {}` goes on",
            out.display()
        ));
    }
    done.interruption().map_or(Ok(()), Err)
}

/// Begins a run; `None` if only the configuration was to be printed.
fn begin(args: &Args, console: &Console) -> Result<Option<Done>> {
    let preset = args.preset.as_deref().map(str::parse).transpose()?;
    let config = match args.time_budget {
        // The plan names the steps.
        Some(_) => merged_config(preset, args.config.as_deref(), args.patch()?)?,
        None => config_for(args, preset, console)?,
    };
    if args.print_config {
        console.data(config.to_toml()?.trim_end())?;
        return Ok(None);
    }
    args.check_depth(&config)?;
    check_stop_at(args.stop_at, &config)?;
    let Some(scene) = &args.scene else {
        return Err(Error::internal("the parser let a missing SCENE pass"));
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => Path::new("out").join(scene_name(scene)?),
    };
    if args.time_budget.is_some() {
        time_budget::refuse_steps(args)?;
        refuse_results(&out, args.overwrite)?;
    }
    let device = DeviceOptions {
        // Whoever writes 0 wants all, on any device.
        default_cap: args.max_gaussians_per_tile.filter(|&cap| cap == 0),
        photo_memory: args.photo_memory,
        ..args.device.clone()
    };
    let job = Job {
        scene,
        out: &out,
        overwrite: args.overwrite,
        stop_at: args.stop_at,
        photo_memory: args.photo_memory,
        pacer: None,
        launch: device.launch(scene),
    };
    let flamegraph = args.flamegraph.as_deref();
    let flamegraph = flamegraph
        .map(|path| Flamegraph::start(path, args.overwrite))
        .transpose()?;
    let title = format!("dapple train {}", scene.display());
    Flamegraph::around(flamegraph, &title, console, || {
        let mut job = job;
        let mut config = config;
        if let Some(seconds) = args.time_budget {
            let (patch, pacer) =
                time_budget::planned(args, seconds, scene, &config, &device, console)?;
            config = merged_config(preset, args.config.as_deref(), patch)?;
            job.pacer = Some(pacer);
        }
        let engine = device.engine(console)?;
        train(job, config, engine, console).map(Some)
    })
}

/// The configuration, fitted to the capture where one is named.
fn config_for(args: &Args, preset: Option<Preset>, console: &Console) -> Result<TrainConfig> {
    let (file, flags) = (args.config.as_deref(), args.patch()?);
    let config = merged_config(preset, file, flags.clone())?;
    let Some(scene) = &args.scene else {
        return Ok(config);
    };
    let capture = load::open(scene, &config.load_options())?;
    let photos = split(&capture.images, &config.data).train.len();
    let fitted = merged_config_for(Some(photos), preset, file, flags)?;
    if fitted.steps != config.steps {
        console.note(&format!(
            "steps: {}, which suit {photos} photos (--steps names others)",
            grouped(fitted.steps.into())
        ));
    }
    if fitted.schedule_steps != config.schedule_steps {
        console.note(&format!(
            "note: {} steps are more than suit {photos} photos: the schedule takes {}, and what follows \
             learns ever less (--schedule-steps {} stretches it)",
            grouped(fitted.steps.into()),
            grouped(fitted.schedule_steps.into()),
            fitted.steps
        ));
    }
    if fitted.data.watch_every != config.data.watch_every {
        console.note(&format!(
            "note: a schedule of {} steps is long for {photos} photos: some are set aside to watch for \
             overfitting (--watch-every 0 trains on them)",
            grouped(fitted.schedule_length().into())
        ));
    }
    Ok(fitted)
}

fn check_stop_at(stop_at: Option<u32>, config: &TrainConfig) -> Result<()> {
    match stop_at {
        Some(step) if step > config.last_step() => Err(Error::input(format!(
            "--stop-at {step} lies beyond the last step, {}",
            config.last_step()
        ))
        .at("the options given")
        .hint("leave --stop-at out to run to the end, or raise --steps")),
        _ => Ok(()),
    }
}

impl Args {
    /// The options as a layer of the configuration.
    fn patch(&self) -> Result<ConfigPatch> {
        Ok(ConfigPatch {
            steps: self.steps,
            schedule_steps: self.schedule_steps,
            seed: self.seed,
            initial_gaussians: self.initial_gaussians,
            max_gaussians: self.max_gaussians,
            sh_degree: self.sh_degree,
            background: self.background,
            antialias: self.antialias.then_some(true),
            max_gaussians_per_tile: self.max_gaussians_per_tile,
            checkpoint_every: self.checkpoint_every,
            // Who names steps wants no clock.
            checkpoint_minutes: self.checkpoint_every.map(|_| 0.0),
            data: DataPatch {
                watch_every: self.watch_every,
                ..self.capture.patch()
            },
            appearance: AppearancePatch {
                model: self.appearance.as_deref().map(str::parse).transpose()?,
                ..AppearancePatch::default()
            },
            eval: EvalPatch {
                // The run may go on, and be scored, from another folder.
                lpips: self
                    .lpips
                    .as_ref()
                    .map(|path| std::path::absolute(path).unwrap_or(path.clone())),
                ..EvalPatch::default()
            },
            densify: DensifyPatch {
                strategy: self.strategy.as_deref().map(str::parse).transpose()?,
                absgrad: self.absgrad.then_some(true),
                opacity_reg: self.opacity_reg,
                scale_reg: self.scale_reg,
                ..DensifyPatch::default()
            },
            depth: DepthPatch {
                from: self.depth_from.as_deref().map(str::parse).transpose()?,
                weight: self.depth_weight,
                folder: self.depths.clone(),
                unit: self.depth_unit,
                relative: self.depth_relative.then_some(true),
                ..DepthPatch::default()
            },
            poses: PosesPatch {
                refine: self.refine_poses.then_some(true),
                ..PosesPatch::default()
            },
            ..ConfigPatch::default()
        })
    }

    /// Refuses options of depths that nothing would look at.
    fn check_depth(&self, config: &TrainConfig) -> Result<()> {
        let given = [
            (
                "--depth-weight",
                self.depth_weight.is_some(),
                DepthSource::None,
            ),
            (
                "--depth-unit",
                self.depth_unit.is_some(),
                DepthSource::Points,
            ),
        ];
        for (option, is_given, without) in given {
            if is_given && [DepthSource::None, without].contains(&config.depth.from) {
                return Err(Error::input(format!(
                    "{option} is given, but with depths from {} it changes nothing",
                    config.depth.from
                ))
                .at("the options given")
                .hint("add --depth-from points or --depth-from images"));
            }
        }
        Ok(())
    }
}

/// What the results are called after.
pub fn scene_name(scene: &Path) -> Result<String> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    cc_psnr: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cc_ssim: Option<f64>,
    lpips: Option<f64>,
    /// The held-out photo with the lowest PSNR.
    worst: Option<ImageScore>,
    aligned_psnr: Option<f64>,
    aligned_ssim: Option<f64>,
    cameras: Option<PathBuf>,
    steps_per_second: f64,
    seconds: Seconds,
    cap: CapLosses,
    photos: Option<PhotoTraffic>,
    watch: Option<WatchReport>,
    peak_memory_bytes: Option<u64>,
}

/// A finished or interrupted run.
pub struct Done {
    /// What it came to.
    pub summary: Summary,
    /// Stopped where `--stop-at` said.
    as_asked: bool,
}

impl Done {
    fn new(folder: &RunFolder, trainer: &Trainer, outcome: &Outcome, stop_at: Option<u32>) -> Self {
        let seconds = trainer.history().seconds;
        Self {
            as_asked: stop_at.map(Ending::Stopped) == Some(outcome.ending),
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
                cc_psnr: outcome.eval.as_ref().and_then(|eval| eval.cc_psnr),
                cc_ssim: outcome.eval.as_ref().and_then(|eval| eval.cc_ssim),
                lpips: outcome.eval.as_ref().and_then(|eval| eval.lpips),
                worst: outcome
                    .eval
                    .as_ref()
                    .and_then(|eval| eval.worst(1).first().copied().cloned()),
                aligned_psnr: outcome.aligned.as_ref().map(|eval| eval.psnr),
                aligned_ssim: outcome.aligned.as_ref().map(|eval| eval.ssim),
                cameras: trainer.config().poses.refine.then(|| folder.cameras_path()),
                steps_per_second: f64::from(outcome.steps) / seconds.train.max(f64::MIN_POSITIVE),
                seconds,
                cap: trainer.history().cap,
                photos: trainer.photo_traffic(),
                watch: trainer.watch_report(),
                peak_memory_bytes: machine::peak_memory_bytes(),
            },
        }
    }

    /// The results for people.
    pub fn lines(&self) -> String {
        let s = &self.summary;
        let scores = match (s.psnr, s.ssim) {
            (Some(psnr), Some(ssim)) => {
                let lpips = s.lpips.map_or(String::new(), |v| format!(", LPIPS {v:.4}"));
                let worst = s.worst.as_ref().map_or(String::new(), |worst| {
                    format!("; worst {} with {:.2} dB", worst.name, worst.psnr)
                });
                format!("PSNR {psnr:.2} dB, SSIM {ssim:.4}{lpips} on the held-out photos{worst}")
            }
            _ => "none: no photo was held out".to_owned(),
        };
        let memory = s.peak_memory_bytes.map_or(String::new(), |b| {
            format!(", {} of memory at most", machine::human_bytes(b))
        });
        let mut lines = vec![format!("scores    {scores}")];
        if let (Some(psnr), Some(ssim)) = (s.cc_psnr, s.cc_ssim) {
            lines.push(format!(
                "fitted    PSNR {psnr:.2} dB, SSIM {ssim:.4} once colours are fitted to each photo's"
            ));
        }
        if let (Some(psnr), Some(ssim)) = (s.aligned_psnr, s.aligned_ssim) {
            lines.push(format!(
                "aligned   PSNR {psnr:.2} dB, SSIM {ssim:.4} with the pose of each fitted to the splats"
            ));
        }
        lines.push(format!(
            "run       {} steps in {}, {:.1} it/s, {} Gaussians{memory}",
            s.steps,
            clock(s.seconds.train),
            s.steps_per_second,
            grouped(s.gaussians)
        ));
        if s.cap.steps > 0 {
            lines.push(format!(
                "cap       cut in {} steps, up to {} pairs of Gaussian and tile in one; the largest \
                 transmittance lost is {:.4}",
                s.cap.steps,
                grouped(s.cap.most_instances),
                s.cap.largest_transmittance
            ));
        }
        if let Some(photos) = &s.photos {
            lines.extend(photo_memory::lines(photos, s.seconds.train));
        }
        if let Some(line) = s.watch.as_ref().and_then(overfitting) {
            lines.push(line);
        }
        lines.extend([
            format!("splats    {}", s.splats.display()),
            format!("metrics   {}", s.metrics.display()),
        ]);
        if let Some(cameras) = &s.cameras {
            lines.push(format!("cameras   {}", cameras.display()));
        }
        if s.psnr.is_some() {
            lines.push(format!("renders   {}", s.renders.display()));
        }
        lines.join("\n")
    }

    /// The error that an interrupted run ends the program with.
    pub fn interruption(&self) -> Option<Error> {
        match self.summary.ending {
            Ending::Stopped(step) if !self.as_asked => Some(
                Error::new(
                    ErrorKind::Interrupted,
                    format!("stopped after {step} steps; everything up to there is saved"),
                )
                .at_path(&self.summary.out)
                .hint(format!(
                    "`dapple train --resume {}` goes on from there",
                    self.summary.out.display()
                )),
            ),
            _ => None,
        }
    }
}

/// What the photos that were set aside say, if they say anything against the last splats.
fn overfitting(watch: &WatchReport) -> Option<String> {
    let kept = watch.kept_step?;
    let at = |step: u32| watch.rows.iter().find(|row| row.step == step);
    let (best, last) = (at(kept)?, watch.rows.last()?);
    Some(format!(
        "overfit   the splats of step {} are kept: of {} photos set aside they show {:.2} dB, the last \
         ones {:.2}; fewer steps do",
        grouped(kept.into()),
        watch.photos,
        best.psnr,
        last.psnr
    ))
}

/// A run to begin.
pub struct Job<'a> {
    /// The capture.
    pub scene: &'a Path,
    /// The folder for the results.
    pub out: &'a Path,
    /// Replace results that are there.
    pub overwrite: bool,
    /// Stop after this step.
    pub stop_at: Option<u32>,
    /// Bytes that photos may take.
    pub photo_memory: Option<u64>,
    /// What keeps it in time.
    pub pacer: Option<Pacer>,
    /// For its checkpoints.
    pub launch: Launch,
}

/// Trains a capture into a folder.
pub fn train(
    job: Job<'_>,
    config: TrainConfig,
    engine: Box<dyn Engine>,
    console: &Console,
) -> Result<Done> {
    let out = job.out;
    refuse_results(out, job.overwrite)?;
    if out.exists() && !out.is_dir() {
        let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
        return Err(Error::io("cannot make the output folder", out, source));
    }
    let folders = NewFolders::before(out);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(train_new(job, config, engine, console))
}

fn refuse_results(out: &Path, overwrite: bool) -> Result<()> {
    let holds = |name: &str| !overwrite && out.join(name).exists();
    if holds("checkpoint.safetensors") {
        return Err(
            Error::input("the output folder holds a run that is not finished")
                .at_path(out)
                .hint(format!(
                    "`dapple train --resume {}` goes on with it; to begin another, name another \
                     folder with --out, or give --overwrite to replace it",
                    out.display()
                )),
        );
    }
    if holds("splats.ply") || holds("metrics.json") {
        return Err(Error::input("the output folder holds the results of a run")
            .at_path(out)
            .hint("name another with --out, or give --overwrite to replace them"));
    }
    Ok(())
}

fn train_new(
    job: Job<'_>,
    config: TrainConfig,
    engine: Box<dyn Engine>,
    console: &Console,
) -> Result<Done> {
    // Before the photos are read: better to fail now than after an hour.
    let folder = RunFolder::create(job.out)?;
    let dataset = load_capture(job.scene, &config, job.photo_memory, console)?;
    let mut trainer = Trainer::new(&dataset, config, engine).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(job.scene),
    })?;
    drop(dataset);
    trainer.set_launch(job.launch);
    if let Some(pacer) = job.pacer {
        trainer.set_pacer(pacer);
    }
    run_into(&folder, &mut trainer, job.stop_at, console)
}

fn load_capture(
    scene: &Path,
    config: &TrainConfig,
    photo_memory: Option<u64>,
    console: &Console,
) -> Result<Dataset> {
    let options = photo_memory::limited(config.training_load_options(), photo_memory);
    let dataset = load(scene, &options, &console.progress())?;
    let memory = photo_memory::note(&dataset, photo_memory);
    for note in dataset.notes.iter().chain(&memory) {
        console.note(&format!("note: {note}"));
    }
    Ok(dataset)
}

/// Runs to the end, or to where it is to stop.
fn run_into(
    folder: &RunFolder,
    trainer: &mut Trainer,
    stop_at: Option<u32>,
    console: &Console,
) -> Result<Done> {
    for note in trainer.notes() {
        console.note(&format!("note: {note}"));
    }
    let steps = trainer.config().last_step();
    let from = match trainer.steps_done() {
        0 => String::new(),
        done => format!(" after step {done}"),
    };
    console.note(&format!(
        "training on {} photos, {} held out, from {} Gaussians{from}: {steps} steps into {}",
        trainer.train_view_count(),
        trainer.eval_views().len(),
        grouped(trainer.gaussians()),
        folder.path().display()
    ));
    trainer.stop_at(stop_at);
    let grace = interrupt::grace();
    let mut display = TrainingDisplay::new(console, &grace, steps);
    let outcome = train_into(folder, trainer, &mut display);
    display.finish();
    Ok(Done::new(folder, trainer, &outcome?, stop_at))
}
