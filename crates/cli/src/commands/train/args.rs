//! Options of `dapple train`, and their layer of the configuration.

use super::scene_name;
use super::time_budget::parse_duration;
use crate::options::{CaptureOptions, DeviceOptions, parse_background};
use crate::photo_memory::parse_bytes;
use crate::viewing::ViewOptions;
use dapple::scene::{Error, MAX_SH_DEGREE, Result};
use dapple::train::config::{
    AppearancePatch, Background, DataPatch, DensifyPatch, DepthPatch, EvalPatch, PosesPatch,
};
use dapple::train::{AppearanceModel, ConfigPatch, DepthSource, Preset, Strategy, TrainConfig};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Settings come from the preset, then the configuration file, then the options here: the later wins.
Schedules (densification, learning rates, SH degree) scale with --steps. --print-config writes the
result, commented, to stdout; the same file with --config repeats the run.

OUT holds splats.ply, config.toml, metrics.json, metrics.csv, renders/ (each held-out photo next to
its render), errors/ (their difference, blue to red) and cameras.json (training cameras in
Nerfstudio's schema, refined with --refine-poses). --appearance adds appearance.safetensors,
--snapshots adds snapshots/ (the splats after some steps). The first Ctrl-C ends the run and saves
these files; the second ends the program at once.

The last line is the wall time of the command: opening the device, loading (capture and first
Gaussians), training, scoring, and writing, which includes the rest. --json has it as wall_seconds,
and the times of the whole run, with earlier commands of a resumed run, as seconds.

Run extension: without --steps, --time-budget and --preset quick, the trainer withholds one photo in
12 from 55 % to 75 % of the schedule. If their loss falls, the run gets half as many steps again. If
the loss falls by 0.006 or more, steps and Gaussians double, with another check, up to 30 000 steps
and two million Gaussians. If the loss rises, the photos are overfitted: the remaining steps use a
dropout rate of 0.1 (not with --max-gaussians; --dropout sets a rate for all steps). `extensions =
0` in a file given with --config switches the checks off.

Gaussian cap of mcmc and budgeted without --max-gaussians: from the detail in the photos, at most
one Gaussian per 30 pixels and 1.5 million; printed at the end of the run.

--time-budget depends on the speed of this machine at the time. OUT/config.toml records the chosen
steps, photo size, Gaussians and changes of the step rate: --config OUT/config.toml repeats the run
bit for bit without a time limit. A run continued with --resume keeps its last step rate and has no
time limit.

One run at a time writes to OUT: its lock, .dapple.lock, refuses a second. Files that Dapple has not
written are replaced only with --overwrite. OUT is never a folder with the capture's own files.

Until the run is finished, OUT also holds checkpoint.safetensors, three times the size of the
splats. `dapple train --resume OUT` continues from it, also after a crash: on the same device to the
same splats, bit for bit, as an uninterrupted run. Capture, device and settings are read from the
checkpoint. Other settings are refused, as is a capture with a changed photo, mask, depth image or
camera.

The same capture, configuration and seed give the same splats, bit for bit, on any number of
threads.

--flamegraph shows inlined functions only if the program was built with debug information:
cargo build --profile profiling builds at release speed with it. For a GPU it shows the host's work.

Examples:
  dapple train captures/bird                            length from the capture, into out/bird
  dapple train captures/bird --preset quick             a shorter run, before the full recipe
  dapple train captures/bird --time-budget 5m           train for five minutes
  dapple train captures/bird --appearance exposure      photos of changing brightness
  dapple train captures/bird --preset m10 --downscale 2 --max-gaussians 200000
  dapple train --preset m10 --print-config > mine.toml
  dapple train captures/bird --config mine.toml -o out/mine
  dapple train --resume out/bird                        after Ctrl-C, a crash, or --stop-at
  dapple train captures/bird --depth-from points        few photos: depths from the sparse points
  dapple train captures/bird --view                     show the run in a browser
  dapple train captures/bird --preset m8 --flamegraph bird.svg";

/// Trains splats from a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Capture: a COLMAP, Nerfstudio or Blender folder, or its transforms.json
    #[arg(required_unless_present_any = ["print_config", "resume"])]
    pub(super) scene: Option<PathBuf>,

    /// Folder for the results [default: out/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,

    /// Base of the settings [default: standard]
    #[arg(short, long, value_name = "PRESET", value_parser = preset_parser())]
    pub(super) preset: Option<String>,

    /// Configuration file (TOML), also for settings without an option
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Training steps, one photo each [default: the preset's; standard computes 7 000 to 30 000 from the capture: 130
    /// per photo plus 3 000 per place in them]
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<u32>,

    /// Steps that learning rates and densification are scaled to; later steps have falling learning rates [default:
    /// --steps, at most what the capture needs]
    #[arg(long, value_name = "N")]
    pub(super) schedule_steps: Option<u32>,

    /// Train for this long, for example 60s, 5m or 1h30m, instead of --steps. Excludes reading photos, calibration
    /// and scoring
    #[arg(long, value_name = "TIME", value_parser = parse_duration,
        conflicts_with_all = ["steps", "stop_at", "resume", "print_config"])]
    pub(super) time_budget: Option<f64>,

    /// Random seed [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,

    /// Gaussians at the start, sampled from the sparse points [default: one per point]. Without sparse points in a
    /// COLMAP capture, the number of random Gaussians
    #[arg(long, value_name = "N")]
    pub(super) initial_gaussians: Option<usize>,

    /// Gaussian cap, 0 for none [default: the preset's]
    #[arg(long, value_name = "N")]
    pub(super) max_gaussians: Option<usize>,

    /// Adds and removes Gaussians by this method [default: mcmc from 3 500 steps on, adc below]. Without
    /// --max-gaussians, budgeted and mcmc compute the cap from the detail in the photos
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_parser())]
    pub(super) strategy: Option<String>,

    /// Sum absolute gradients (AbsGS) for densification, with threshold 0.0008 instead of 0.0002; for adc and
    /// budgeted
    #[arg(long)]
    pub(super) absgrad: bool,

    /// Model of differences in exposure and colour between photos, stored in OUT/appearance.safetensors [default:
    /// none]
    #[arg(long, value_name = "MODEL", value_parser = appearance_parser())]
    pub(super) appearance: Option<String>,

    /// Dropout rate of Gaussians per step, 0 to 0.5 [default: 0, or 0.1 after a failed extension check]
    #[arg(long, value_name = "X")]
    pub(super) dropout: Option<f64>,

    /// Weight of the mean opacity in the loss [default: 0; mcmc 0.01]
    #[arg(long, value_name = "X")]
    pub(super) opacity_reg: Option<f64>,

    /// Weight of the mean size of Gaussians in the loss, as a fraction of the scene extent [default: 0; mcmc 0.02]
    #[arg(long, value_name = "X")]
    pub(super) scale_reg: Option<f64>,

    /// Weight of the mean smallest size of Gaussians in the loss, as a fraction of the scene extent [default: 0]. 1
    /// to 10 flattens Gaussians for meshes and normals, and costs some PSNR
    #[arg(long, value_name = "X")]
    pub(super) flat_reg: Option<f64>,

    /// Withhold every N-th training photo for validation, 0 for none. The result is the splats with the best
    /// validation score [default: 16 if the schedule is more than twice the default for the capture, else 0]
    #[arg(long, value_name = "N")]
    pub(super) watch_every: Option<usize>,

    /// Supervise depth by the sparse points or by depth images [default: none]. Helps with few photos
    #[arg(long, value_name = "SOURCE", value_parser = depth_parser())]
    pub(super) depth_from: Option<String>,

    /// Weight of the relative depth error in the loss, falling to a hundredth over the run [default: 0.1]
    #[arg(long, value_name = "X")]
    pub(super) depth_weight: Option<f64>,

    /// Folder of depth images with the photos' names, .exr (world units along the camera's axis) or 16-bit .png
    /// [default: from transforms.json, else depths/ or depth/ next to the photos]
    #[arg(long, value_name = "FOLDER")]
    pub(super) depths: Option<PathBuf>,

    /// World units per step of a depth PNG [default: 0.001]
    #[arg(long, value_name = "X")]
    pub(super) depth_unit: Option<f64>,

    /// Treat depth images as inverse depths of unknown scale and shift (monocular estimators), fitted to the sparse
    /// points per photo
    #[arg(long)]
    pub(super) depth_relative: bool,

    /// Refine the camera poses during training, written to cameras.json [default: off]. Held-out photos are then
    /// scored with the given poses and with aligned poses
    #[arg(long)]
    pub(super) refine_poses: bool,

    /// Highest degree of spherical harmonics, 0 to 3 [default: 3]. 0 has no view dependence and a quarter of the size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)))]
    pub(super) sh_degree: Option<u8>,

    /// Background of renders and of transparent photos; numbers 0 to 1 [default: black; random with --mask-mode
    /// segment, a new colour each step]. Scores use this colour, and black for random
    #[arg(long, value_name = "random|black|white|R,G,B", value_parser = parse_background)]
    pub(super) background: Option<Background>,

    /// Train with the Mip-Splatting filters [default: off]. Improves renders at other sizes than the photos; other
    /// viewers show such splats too thick and too bright
    #[arg(long)]
    pub(super) antialias: bool,

    /// Blend at most N Gaussians per tile of 16x16 pixels, nearest first; 0 = all [default: 0; 2048 on GPUs whose
    /// drivers kill long work, see `dapple doctor`]
    #[arg(long, value_name = "N")]
    pub(super) max_gaussians_per_tile: Option<u32>,

    /// Memory for decoded photos, for example 4GiB, on the host and, up to 4 GiB, on the GPU [default: half of the
    /// free memory]. Further photos are read again during training
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(super) photo_memory: Option<u64>,

    /// Write a checkpoint every N steps, 0 for only on Ctrl-C [default: every 2 minutes, at most 1 % of the time of a
    /// long run]
    #[arg(long, value_name = "N")]
    pub(super) checkpoint_every: Option<u32>,

    /// Stop after step N and save everything, as on Ctrl-C; --resume continues. The schedule remains that of the
    /// whole run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) stop_at: Option<u32>,

    /// Continue the run in the folder OUT from its last checkpoint
    #[arg(long, value_name = "OUT", conflicts_with_all = ["out", "overwrite", "print_config"])]
    pub(super) resume: Option<PathBuf>,

    /// Replace the results in OUT
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Write the merged configuration to stdout and stop
    #[arg(long)]
    pub(super) print_config: bool,

    /// Write a flamegraph of the run's CPU time on all threads, also after Ctrl-C. Needs no root. Not on Windows
    #[arg(long, value_name = "FILE.svg")]
    pub(super) flamegraph: Option<PathBuf>,

    /// LPIPS weights: score held-out photos by LPIPS at the end of the run, and on a GPU at every scoring; see
    /// `dapple eval --help` [default: no LPIPS]
    #[arg(long, value_name = "FILE.safetensors")]
    pub(super) lpips: Option<PathBuf>,

    /// Weight of LPIPS in the loss, for a crop of each render and photo, with the weights of --lpips [default: 0]
    #[arg(long, value_name = "WEIGHT")]
    pub(super) perceptual: Option<f64>,

    /// Print one JSON object when done
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) view: ViewOptions,

    #[command(flatten)]
    pub(super) capture: CaptureOptions,

    #[command(flatten)]
    pub(super) device: DeviceOptions,
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

impl Args {
    /// The folder for the results.
    pub(super) fn out_folder(&self, scene: &Path) -> Result<PathBuf> {
        match &self.out {
            Some(out) => Ok(out.clone()),
            None => Ok(Path::new("out").join(scene_name(scene)?)),
        }
    }

    /// The options as a layer of the configuration.
    pub(super) fn patch(&self) -> Result<ConfigPatch> {
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
            perceptual_weight: self.perceptual,
            dropout: self.dropout,
            checkpoint_every: self.checkpoint_every,
            // An interval in steps replaces the interval in minutes.
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
                // The run may resume, and be scored, from another folder.
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
                flat_reg: self.flat_reg,
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

    /// Refuses depth options that have no effect.
    pub(super) fn check_depth(&self, config: &TrainConfig) -> Result<()> {
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
