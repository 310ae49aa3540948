//! Options of `dapple train` that are no settings. Options of settings are rows of the configuration.

use super::duration::parse_duration;
use crate::options::{DeviceOptions, scene_name};
use crate::settings_args::{All, SettingsArgs};
use crate::viewing::ViewOptions;
use dapple::scene::{Error, Result};
use dapple::train::{ConfigPatch, DepthSource, TrainConfig};
use dapple_base::numbers::parse_bytes;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Settings come from the preset, then the configuration file, then the options; later ones win.
--print-config writes all settings, commented; the file with --config repeats the run.

docs/SETTINGS.md lists all settings. docs/TRAINING.md explains the length of runs, the Gaussian cap,
time budgets, appearance, depth, resuming, and the files of OUT.

Examples:
  dapple train captures/bird                            length from the capture, into out/bird
  dapple train captures/bird --preset quick             a shorter run, before the full recipe
  dapple train captures/bird --time-budget 5m           train for five minutes
  dapple train captures/bird --appearance exposure      photos of changing brightness
  dapple train captures/bird --preset m10 --downscale 2 --max-gaussians 200000
  dapple train --preset m10 --print-config > mine.toml
  dapple train captures/bird --config mine.toml -o out/mine
  dapple train --resume out/bird                        after Ctrl-C, a crash, or --stop-at
  dapple train --continue out/bird --steps +2000        train a finished or stopped run further
  dapple train captures/bird --from out/bird -o out/more  start from splats that exist
  dapple train captures/bird --depth-from points        few photos: depths from the sparse points
  dapple train captures/bird --view                     show the run in a browser
  dapple train captures/bird --ranks-in-process 2 --views-per-step 8   on two GPUs (docs/CLUSTER.md)
  dapple train captures/bird --preset m8 --flamegraph bird.svg";

/// Trains splats from a capture
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Capture: a COLMAP, Nerfstudio or Blender folder, or its transforms.json
    #[arg(value_name = "CAPTURE", required_unless_present_any = ["print_config", "resume", "continue_run"], help_heading = "Input")]
    pub(super) scene: Option<PathBuf>,

    /// Configuration file (TOML), also for settings without an option
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    pub(super) config: Option<PathBuf>,

    /// Start from these splats, a splat file of any format or a run's folder, instead of from sparse points
    #[arg(long, value_name = "SPLATS", help_heading = "Input",
        conflicts_with_all = ["resume", "print_config", "time_budget"])]
    pub(super) from: Option<PathBuf>,

    /// Continue the run in the folder OUT from its last checkpoint
    #[arg(long, value_name = "OUT", help_heading = "Input",
        conflicts_with_all = ["out", "overwrite", "print_config"])]
    pub(super) resume: Option<PathBuf>,

    /// Train the finished or stopped run in the folder RUN further, --steps +N steps
    ///
    /// Settings are those of the run, changed by options. --steps N is the number of all steps, --steps +N of further
    /// steps [default: half as many steps again]. The results replace those of RUN, unless --out names another folder.
    /// With a CAPTURE that has more photos, only what the new photos see is trained [default: 100 steps for each of them]
    #[arg(long = "continue", value_name = "RUN", help_heading = "Input",
        conflicts_with_all = ["resume", "from", "print_config", "preset"])]
    pub(super) continue_run: Option<PathBuf>,

    /// Memory for decoded photos, for example 4GiB [default: half of the free memory]. The limit applies to the host
    /// and, up to 4 GiB, to the GPU. Further photos are read again during training
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Input",
        hide_short_help = true)]
    pub(super) photo_memory: Option<u64>,

    #[command(flatten)]
    pub(super) settings: SettingsArgs<All>,

    /// Train for this long, for example 60s, 5m or 1h30m, instead of --steps; with --continue, this much longer. Excludes reading photos, calibration
    /// and scoring
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Length and size",
        conflicts_with_all = ["steps", "stop_at", "resume", "print_config"])]
    pub(super) time_budget: Option<f64>,

    /// Stop after step N and save everything, as on Ctrl-C; --resume continues. The schedule remains that of the
    /// whole run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Length and size", hide_short_help = true)]
    pub(super) stop_at: Option<u32>,

    /// Folder for the results [default: out/<name of the capture>]
    #[arg(short, long, value_name = "FOLDER", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,

    /// Replace the results in OUT
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(super) overwrite: bool,

    /// Write the merged configuration to stdout and stop
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(super) print_config: bool,

    /// Write a flamegraph of the run's CPU time on all threads, also after Ctrl-C. Needs no root. Not on Windows
    #[arg(
        long,
        value_name = "FILE.svg",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub(super) flamegraph: Option<PathBuf>,

    /// Print one JSON object when done
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) view: ViewOptions,

    #[command(flatten)]
    pub(crate) device: DeviceOptions,

    /// Share the Gaussians among N ranks of this process, each with an engine: on several GPUs, each holds a part of the
    /// model. Results have the same bits for any N of one kind of device. Views of a step are rendered side by side, up to
    /// --views-per-step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "Device", hide_short_help = true)]
    pub(super) ranks_in_process: Option<u32>,
}

impl Args {
    /// Returns the folder for the results.
    pub(super) fn out_folder(&self, scene: &Path) -> Result<PathBuf> {
        match &self.out {
            Some(out) => Ok(out.clone()),
            None => Ok(Path::new("out").join(scene_name(scene)?)),
        }
    }

    /// Sets the options of viewer and device: those of a command that trains too.
    pub fn show_as(&mut self, view: ViewOptions, device: DeviceOptions) {
        (self.view, self.device) = (view, device);
    }

    /// Returns the options as a layer of the configuration.
    pub(super) fn patch(&self) -> ConfigPatch {
        self.settings.patch()
    }

    /// Refuses `--steps +N` without a run to add steps to.
    pub(super) fn refuse_added_steps(&self) -> Result<()> {
        if !self.settings.adds_steps() || self.continue_run.is_some() {
            return Ok(());
        }
        Err(
            Error::input("--steps +N adds steps to a run that has ended")
                .at("the options given")
                .hint("name the run with --continue RUN, or omit the plus sign"),
        )
    }

    /// Returns what the configuration file and the options set, without a preset.
    pub(super) fn given(&self) -> Result<ConfigPatch> {
        let file = self.config.as_deref().map(ConfigPatch::read).transpose()?;
        Ok(file.unwrap_or_default().merged(self.patch()))
    }

    /// Refuses depth options that have no effect.
    pub(super) fn check_depth(&self, config: &TrainConfig) -> Result<()> {
        let depth = self.patch().depth;
        let given = [
            ("--depth-weight", depth.weight.is_some(), DepthSource::None),
            ("--depth-unit", depth.unit.is_some(), DepthSource::Points),
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
