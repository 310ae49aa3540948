//! What `dapple train` is asked for: its options, and the layer of the configuration that they make.

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
result, commented, to stdout; given back with --config it makes the same run.

OUT holds splats.ply, config.toml, metrics.json, metrics.csv, renders/ (each held-out photo beside its
render), errors/ (where they differ, blue to red), cameras.json (those trained on, in Nerfstudio's
schema, refined with --refine-poses), with --appearance appearance.safetensors, and with --snapshots
snapshots/ (the splats as they were after some steps). The first Ctrl-C ends the run and saves all of it;
the second ends the program at once.

The last line says where the wall time of the command went: opening the device, loading (the capture and the
first Gaussians), training, scoring, and writing, which is all that is none of the others. --json has it as
wall_seconds, and as seconds that of the whole run, earlier commands that --resume went on with included.

Where nobody says how long the run is (--steps, --time-budget, --preset quick), it may extend itself: some photos
are set aside for a fifth of it, and if their loss falls meanwhile, it goes on as if it had been planned with half as
many steps again; if it falls by what an eye can see, with twice the steps and twice the Gaussians, and is asked again,
up to 30 000 steps and two million. If their loss rises, photos are learnt by heart, and each step from there on leaves
out a tenth of the Gaussians, others each time (--dropout names a part, for all steps; with --max-gaussians none is
left out). The photos are trained on before and after. `extensions = 0` in a file given with --config switches all of it off.

--time-budget depends on how fast this machine is now; what came of it is in OUT/config.toml, steps,
photo size, Gaussians and changes of pace: --config OUT/config.toml repeats that run bit for bit, in
whatever time it takes. A run that goes on with --resume keeps its last pace and looks at no clock.

One run at a time writes to OUT: another is refused while its lock, .dapple.lock, is held. What Dapple
has not written is replaced with --overwrite alone, and OUT is no folder of the capture's own files.

Until the run is finished OUT also holds checkpoint.safetensors, written now and then and on Ctrl-C,
three times the size of the splats. `dapple train --resume OUT` goes on from it, also after a crash:
on the same device to the same splats, bit for bit, as a run that was never stopped. Capture, device
and settings are those of the run, and need not be repeated; others are refused, as is a capture with
a photo, mask, depth image or camera that has changed.

The same capture, configuration and seed give the same splats, bit for bit, on any number of
threads.

--flamegraph shows functions that were inlined only where the program was built with debug
information: cargo build --profile profiling is release speed with it. Of a GPU it shows what the
host does for it.

Examples:
  dapple train captures/bird                            as long as suits it, into out/bird
  dapple train captures/bird --preset quick             a good first look, before the full recipe
  dapple train captures/bird --time-budget 5m            the best that five minutes give
  dapple train captures/bird --appearance exposure      photos of changing brightness
  dapple train captures/bird --preset m10 --downscale 2 --max-gaussians 200000
  dapple train --preset m10 --print-config > mine.toml
  dapple train captures/bird --config mine.toml -o out/mine
  dapple train --resume out/bird                        after Ctrl-C, a crash, or --stop-at
  dapple train captures/bird --depth-from points        few photos: sparse points say depths
  dapple train captures/bird --view                     and look at it in a browser meanwhile
  dapple train captures/bird --preset m8 --flamegraph bird.svg";

/// Trains splats from a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The capture: a folder (COLMAP, Nerfstudio, Blender) or its transforms.json
    #[arg(required_unless_present_any = ["print_config", "resume"])]
    pub(super) scene: Option<PathBuf>,

    /// The folder for the results [default: out/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,

    /// What the settings are based on [default: standard]
    #[arg(short, long, value_name = "PRESET", value_parser = preset_parser())]
    pub(super) preset: Option<String>,

    /// A configuration file (TOML), for settings that have no option here
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Training steps, one photo each [default: the preset's; standard takes 130 for each photo
    /// and 3 000 for each place that they show, 7 000 to 30 000, since beyond that photos are learned by
    /// heart]. Schedules scale with it, up to --schedule-steps
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<u32>,

    /// Steps that the schedule is scaled to; those after it learn ever less [default: all, but no more
    /// than suit the capture (see --steps), so that a longer run does little harm]
    #[arg(long, value_name = "N")]
    pub(super) schedule_steps: Option<u32>,

    /// Train for this long, for example 60s, 5m or 1h30m, instead of --steps: times some steps on the
    /// device, chooses steps, photo size and Gaussians, and keeps to it. Reading photos, calibration and
    /// scoring are not counted
    #[arg(long, value_name = "TIME", value_parser = parse_duration,
        conflicts_with_all = ["steps", "stop_at", "resume", "print_config"])]
    pub(super) time_budget: Option<f64>,

    /// Seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,

    /// Gaussians at the start, drawn from the sparse points [default: one per point]. A COLMAP capture
    /// that has lost its points is trained from so many random ones
    #[arg(long, value_name = "N")]
    pub(super) initial_gaussians: Option<usize>,

    /// Never hold more Gaussians than this, 0 for no limit [default: the preset's]. Bounds memory
    /// and time
    #[arg(long, value_name = "N")]
    pub(super) max_gaussians: Option<usize>,

    /// How Gaussians are added and removed [default: mcmc from 3 500 steps on, where it scores best; adc
    /// below, where it has no time to grow]. budgeted and mcmc work towards --max-gaussians; without it,
    /// towards what the photos' detail asks for (the end of a run says how much it found), at most one for
    /// every 30 pixels of the photos, and 1.5 million; a run that extends itself may have twice that, up to two million
    #[arg(long, value_name = "STRATEGY", value_parser = strategy_parser())]
    pub(super) strategy: Option<String>,

    /// Grow where pixels disagree too: sums absolute gradients (AbsGS), with a threshold of 0.0008
    /// instead of 0.0002. For adc and budgeted
    #[arg(long)]
    pub(super) absgrad: bool,

    /// What photos differ in, learnt beside the splats and stored in OUT/appearance.safetensors [default:
    /// none: where photos agree it only costs, and splats that can do without it show in any viewer what
    /// was scored]
    #[arg(long, value_name = "MODEL", value_parser = appearance_parser())]
    pub(super) appearance: Option<String>,

    /// The part of the Gaussians that each step leaves out at random, 0 to 0.5 [default: 0; 0.1 for the last quarter of
    /// a run whose photos are learnt by heart, see above]. Photos are learnt by heart less, and their detail is
    /// learnt less too: 0.1 all along gains up to 0.9 dB or loses as much (see BENCHMARKS.md)
    #[arg(long, value_name = "X")]
    pub(super) dropout: Option<f64>,

    /// Weight of the mean opacity in the loss [default: 0; mcmc 0.01]. Fades what photos do not need
    #[arg(long, value_name = "X")]
    pub(super) opacity_reg: Option<f64>,

    /// Weight of the mean size of Gaussians, as a fraction of the scene's extent, in the loss [default: 0;
    /// mcmc 0.02]
    #[arg(long, value_name = "X")]
    pub(super) scale_reg: Option<f64>,

    /// Weight of the mean smallest size of Gaussians, as a fraction of the scene's extent, in the loss
    /// [default: 0]. Makes them discs that follow surfaces, for meshes and normals; 1 to 10 flattens, and costs
    /// some PSNR
    #[arg(long, value_name = "X")]
    pub(super) flat_reg: Option<f64>,

    /// Set every N-th training photo aside to watch for overfitting, 0 for none: they are not trained
    /// on, and the splats that show them best are the result [default: 16 where the schedule is more
    /// than twice as long as suits this capture, else 0]
    #[arg(long, value_name = "N")]
    pub(super) watch_every: Option<usize>,

    /// Supervise depth too [default: none]: by the sparse points in the photos that found them, or by
    /// depth images. Helps where photos are few
    #[arg(long, value_name = "SOURCE", value_parser = depth_parser())]
    pub(super) depth_from: Option<String>,

    /// Weight of the relative error of depths in the loss, falling to a hundredth of it over the run
    /// [default: 0.1]
    #[arg(long, value_name = "X")]
    pub(super) depth_weight: Option<f64>,

    /// Folder of the depth images: files of the photos' names, .exr (world units along the camera's
    /// axis) or 16-bit .png [default: what transforms.json names, else depths/ or depth/ beside the
    /// photos]
    #[arg(long, value_name = "FOLDER")]
    pub(super) depths: Option<PathBuf>,

    /// World units of one step of a depth PNG [default: 0.001]
    #[arg(long, value_name = "X")]
    pub(super) depth_unit: Option<f64>,

    /// Depth images are inverse depths of unknown scale and shift, as monocular estimators write them:
    /// fit both to the sparse points, photo by photo
    #[arg(long)]
    pub(super) depth_relative: bool,

    /// Refine the poses of the photos while training, for captures whose poses are off; cameras.json
    /// holds the result. Held-out photos are scored twice: as their poses are given, and aligned, with
    /// each pose fitted to the finished splats [default: off]
    #[arg(long)]
    pub(super) refine_poses: bool,

    /// Highest degree of spherical harmonics, 0 to 3 [default: 3]. 0 has no view dependence and a
    /// quarter of the size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SH_DEGREE)))]
    pub(super) sh_degree: Option<u8>,

    /// What is behind everything and behind transparent photos: random, black, white or a colour,
    /// each number 0 to 1 [default: black; with --mask-mode segment random, another colour each step,
    /// so that splats cannot paint it]. Scores are over that colour, over black for random
    #[arg(long, value_name = "random|black|white|R,G,B", value_parser = parse_background)]
    pub(super) background: Option<Background>,

    /// Filter against aliasing (Mip-Splatting), for renders of other sizes than the photos: half of it gains
    /// 2 to 4 dB, twice of it 0.4 to 1.5. Off by default: viewers that filter otherwise show such splats
    /// too thick and too bright, nearly 2 dB worse
    #[arg(long)]
    pub(super) antialias: bool,

    /// Blend at most this many Gaussians in a tile of 16x16 pixels, nearest first; 0 = all [default:
    /// 0, but 2048 on GPUs whose drivers kill long work: `dapple doctor` names them]
    #[arg(long, value_name = "N")]
    pub(super) max_gaussians_per_tile: Option<u32>,

    /// Memory that decoded photos may take, for example 4GiB, on the host and, up to 4 GiB, on the GPU
    /// [default: half of the memory that is free]. Photos beyond it are read again by threads that run
    /// ahead of training; the splats are the same
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(super) photo_memory: Option<u64>,

    /// Write a checkpoint every N steps, 0 for none but on Ctrl-C [default: every 2 minutes, and more
    /// rarely where one takes longer than 1.2 s: they never cost more than 1 % of a long run]
    #[arg(long, value_name = "N")]
    pub(super) checkpoint_every: Option<u32>,

    /// Stop after step N as on Ctrl-C: everything is saved and --resume goes on. The schedule stays
    /// that of the whole run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) stop_at: Option<u32>,

    /// Go on with the run in the folder OUT from its last checkpoint
    #[arg(long, value_name = "OUT", conflicts_with_all = ["out", "overwrite", "print_config"])]
    pub(super) resume: Option<PathBuf>,

    /// Replace the results that OUT holds
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Write the merged configuration to stdout and stop
    #[arg(long)]
    pub(super) print_config: bool,

    /// Sample where the CPU time of the run goes, on all threads, and write a flamegraph that any
    /// browser opens; also after Ctrl-C. Needs no root. Not on Windows
    #[arg(long, value_name = "FILE.svg")]
    pub(super) flamegraph: Option<PathBuf>,

    /// Weights of LPIPS: the held-out photos are scored by it too when the run ends, and on a GPU whenever they are
    /// scored. `dapple eval --help` says more [default: no LPIPS]
    #[arg(long, value_name = "FILE.safetensors")]
    pub(super) lpips: Option<PathBuf>,

    /// Train by LPIPS too, with the weights of --lpips: how much it counts in the loss, between a crop of each step's render
    /// and photo (`perceptual_crop` of the configuration says how large) [default: 0, no crop is compared]
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

    /// Refuses options of depths that nothing would look at.
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
