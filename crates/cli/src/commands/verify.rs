//! `dapple verify`: trains a run again, and compares the second run with the first.

use crate::console::Console;
use crate::interrupt;
use crate::known_capture;
use crate::options::{DeviceOptions, placed};
use crate::training_display::{Shown, TrainingDisplay, gaussians, grouped};
use dapple::scene::{Error, ErrorKind, Result, printable};
use dapple::train::verification::{Compared, Difference, SplatsComparison};
use dapple::train::{Ending, Metrics, RunFolder, Snapshots, Trainer, Verifier};
use serde::Serialize;
use std::path::PathBuf;

use super::train::{FromSplats, ended, load_capture};

const AFTER_HELP: &str = "\
The same seed gives the same bytes on a device, with any number of threads. This command proves it
for a run: it trains the run again by the config.toml of its folder, without writing a file. Losses,
density control and scores are compared with metrics.json as the run proceeds, and it ends at the
first difference. At the end all Gaussians are compared with splats.ply, bit by bit.

The exit code is 0 if the runs are equal, 3 if not.

Examples:
  dapple verify out/bird
  dapple verify out/bird --device cpu           the device of the run, if it is not the default
  dapple verify out/bird --until 500            a quick look: the first 500 steps
  dapple verify out/bird --json | jq .same";

/// Trains a run again, and says whether it gives the same bytes
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folder of the run
    #[arg(value_name = "RUN", help_heading = "Input")]
    run: PathBuf,

    /// Capture [default: the run's]
    #[arg(long, value_name = "CAPTURE", help_heading = "Input")]
    capture: Option<PathBuf>,

    /// Compare the first STEP steps only
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Input")]
    until: Option<u32>,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Found {
    /// True if nothing differs.
    same: bool,
    run: PathBuf,
    /// Steps that were compared.
    steps: u32,
    /// Device of the run, and of this command.
    devices: [String; 2],
    /// Version of Dapple that trained the run, and this one.
    versions: [String; 2],
    compared: Compared,
    /// The first number that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
    /// Comparison of the Gaussians; none if the run ended before its last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    splats: Option<SplatsComparison>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let folder = RunFolder::open(&args.run);
    let recorded = read(&folder)?;
    let start = folder.read_capture()?.and_then(|record| record.start);
    let start = start
        .map(|start| FromSplats::again(start, console))
        .transpose()?;
    let scene = match &args.capture {
        Some(scene) => scene.clone(),
        None => known_capture::needed(&folder.splats_path(), console)?,
    };
    let until = args.until.unwrap_or(u32::MAX).min(recorded.steps);
    let device = device_of_run(args, &folder);
    let engine = device.engine_for(&recorded.config, console)?;
    let dataset = load_capture(&scene, &recorded.config, None, console)?;
    let config = recorded.config.clone();
    let mut trainer = match start {
        Some(start) => start.trainer(&dataset, config, engine, console)?,
        None => Trainer::new(&dataset, config, engine).map_err(|e| placed(e, &scene))?,
    };
    drop(dataset);
    let verifier = repeat(&folder, &mut trainer, until, &recorded, console)?;
    let is_whole = until == recorded.steps && verifier.difference().is_none();
    let splats = is_whole
        .then(|| folder.compare_splats(&mut trainer))
        .transpose()?;
    let is_same = splats.as_ref().is_none_or(SplatsComparison::is_same);
    let found = Found {
        same: verifier.difference().is_none() && is_same,
        run: args.run.clone(),
        steps: trainer.steps_done(),
        devices: [recorded.device.clone(), trainer.device()],
        versions: [
            recorded.dapple.clone(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ],
        compared: verifier.compared(),
        difference: verifier.difference().cloned(),
        splats,
    };
    if args.json {
        console.json(&found)?;
    } else if found.same {
        console.outcome(&found.lines())?;
    }
    match found.same {
        true => Ok(()),
        false => Err(found.error()),
    }
}

/// Returns the record of a run that can be repeated.
fn read(folder: &RunFolder) -> Result<Metrics> {
    let recorded = folder.read_metrics()?;
    let refused = |why: String, hint: &str| {
        Err(Error::unsupported(why)
            .at_path(folder.path())
            .hint(hint.to_owned()))
    };
    if let Some(part) = recorded.continuations.first() {
        return refused(
            format!(
                "the run was continued after step {}",
                grouped(part.after.into())
            ),
            "runs of one part can be repeated; `dapple train --continue` into another folder with --out keeps the first part",
        );
    }
    match recorded.ending {
        Ending::Finished | Ending::Stopped(_) => Ok(recorded),
        bad => {
            let why = bad
                .error()
                .map_or_else(String::new, |e| e.what().to_owned());
            refused(
                format!("the run ended badly: {why}"),
                "finished and stopped runs can be repeated",
            )
        }
    }
}

/// Returns the options of the device, with the precision, the limit and the ranks of the run where it recorded them.
fn device_of_run(args: &Args, folder: &RunFolder) -> DeviceOptions {
    let launch = folder.read_to_continue().map(|state| state.launch);
    args.device.like_run(&launch.unwrap_or_default())
}

/// Trains to a step, or to the first difference.
fn repeat(
    folder: &RunFolder,
    trainer: &mut Trainer,
    until: u32,
    recorded: &Metrics,
    console: &Console,
) -> Result<Verifier> {
    for note in trainer.notes() {
        console.note(&format!("note: {}", printable(note)));
    }
    console.note(&format!(
        "repeating {} of {} steps, from {}",
        grouped(until.into()),
        grouped(recorded.steps.into()),
        gaussians(trainer.gaussians())
    ));
    trainer.stop_at(Some(until));
    let grace = interrupt::grace();
    let shown = Shown {
        live: None,
        snapshots: Snapshots::new(folder, &recorded.config, 0),
    };
    let mut display = TrainingDisplay::new(console, &grace, until, shown);
    let mut verifier = Verifier::new(recorded);
    let outcome = trainer.run_with(&mut [&mut verifier, &mut display]);
    display.finish(&ended(&outcome));
    let outcome = outcome?;
    if interrupt::requested() {
        let what = "the runs are equal so far";
        return Err(Error::new(ErrorKind::Interrupted, what)
            .at(format!("step {}", grouped(outcome.steps.into()))));
    }
    match outcome.ending {
        Ending::Finished | Ending::Stopped(_) => Ok(verifier),
        bad => Err(bad
            .error()
            .unwrap_or_else(|| Error::internal("the run ended badly"))),
    }
}

impl Found {
    fn lines(&self) -> String {
        let Compared {
            losses,
            rounds,
            scores,
        } = self.compared;
        let splats = match &self.splats {
            Some(splats) => format!(
                "{}, CRC-32 {:08x}",
                gaussians(splats.gaussians[0] as u64),
                splats.crc32[1]
            ),
            None => "not compared: --until ends before the run".to_owned(),
        };
        format!(
            "same      {} steps of {} on {}\n\
             compared  {losses} losses, {rounds} rounds of density control, {scores} scorings\n\
             splats    {splats}",
            grouped(self.steps.into()),
            self.run.display(),
            self.devices[1],
        )
    }

    /// Returns the first difference as an error, with the most likely reason.
    fn error(&self) -> Error {
        let what = match (&self.difference, &self.splats) {
            (Some(found), _) => format!(
                "step {} differs: {} is {}, and was {}",
                found.step, found.what, found.found, found.recorded
            ),
            (None, Some(splats)) => match &splats.first {
                Some(found) => format!(
                    "all numbers on the way are equal, and the Gaussians differ: {} of {} in {}, first number {}, by up to {:e}",
                    found.count, splats.gaussians[0], found.tensor, found.gaussian, found.largest
                ),
                None => format!(
                    "the run ends with {}, and splats.ply has {}",
                    gaussians(splats.gaussians[1] as u64),
                    grouped(splats.gaussians[0] as u64)
                ),
            },
            (None, None) => "the runs differ".to_owned(),
        };
        let [was, is] = &self.devices;
        let hint = if self.versions[0] != self.versions[1] {
            format!(
                "Dapple {} trained the run, and this is {}: versions may round differently",
                self.versions[0], self.versions[1]
            )
        } else if was != is {
            format!(
                "the run was trained on {was}, and this is {is}: --device selects another device"
            )
        } else if self.splats.is_some() {
            "splats.ply was edited, or written by another build".to_owned()
        } else {
            "another build of this version may round differently; with the same build, this is a defect: please report it".to_owned()
        };
        Error::input(what).at_path(&self.run).hint(hint)
    }
}
