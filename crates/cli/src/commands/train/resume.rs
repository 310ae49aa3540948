//! `dapple train --resume OUT`: continues a run from its checkpoint.
//!
//! 1. Options must equal the run's: another seed would be another run. The checkpoint interval and --stop-at may
//!    change.
//! 2. Capture, device and storage are the run's unless given: the capture may have moved, and the device may be
//!    missing. The trainer checks the capture, and prints a note about another device.

use super::{Args, Done, Wall, check_stop_at, live, load_capture, record_capture, run_into};
use crate::console::Console;
use crate::options::{DeviceOptions, placed};
use crate::training_display::Shown;
use crate::viewing::playback;
use dapple::Device;
use dapple::scene::{Error, OwnSplit, Result, load};
use dapple::train::{Checkpoint, ConfigPatch, RunFolder, RunLock, RunOrigin, Snapshots, Trainer};
use std::path::Path;

/// Continues the run in `out`.
pub fn resume(args: &Args, out: &Path, mut wall: Wall, console: &Console) -> Result<Done> {
    // Locked before reading the checkpoint, which the run's own process may be replacing, and before reading the
    // photos, so that this error appears first.
    let folder = match holds_run(out) {
        true => RunFolder::create(out)?,
        false => RunFolder::open(out),
    };
    let mut checkpoint = folder.read_checkpoint()?;
    folder.refuse_obstacles()?;
    refuse_contradictions(args, &checkpoint, out)?;
    refuse_edited_config(&folder, &checkpoint)?;
    let config = &mut checkpoint.config;
    if let Some(every) = args.patch().checkpoint_every {
        config.checkpoint_every = every;
        config.checkpoint_minutes = 0.0;
    }
    config.no_state |= args.patch().no_state == Some(true);
    check_stop_at(args.stop_at, config)?;
    if let Some(step) = args.stop_at.filter(|&step| step <= checkpoint.step) {
        return Err(Error::input(format!(
            "--stop-at {step} is past: the run has done {} steps",
            checkpoint.step
        ))
        .at_path(out)
        .hint("name a later step, or omit --stop-at to run to the end"));
    }
    let device = device(args, &checkpoint, console);
    let Some(scene) = args.scene.clone().or(checkpoint.launch.capture.clone()) else {
        return Err(Error::input("the checkpoint has no path of the capture")
            .at_path(out)
            .hint(again(out)));
    };
    if args.scene.is_none() && !scene.exists() {
        return Err(
            Error::input("the capture of this run does not exist any more")
                .at_path(&scene)
                .hint(again(out)),
        );
    }
    wall.goes_on(checkpoint.history.seconds);
    let engine = wall
        .device(|| device.engine_for(&checkpoint.config, console))
        .map_err(|e| match e.place() {
            Some("--precision") if args.device.precision.is_none() => e
                .at_path(out)
                .hint("the run started with this precision; --precision f32 continues it there, not bit for bit"),
            _ => e,
        })?;
    let viewer = args.view.start(console)?;
    let dataset = load_capture(&scene, &checkpoint.config, args.photo_memory, console)?;
    let count = args.view.snapshots(checkpoint.launch.snapshots);
    let start = checkpoint.launch.start.clone();
    let launch = RunOrigin {
        start: start.clone(),
        snapshots: Some(count).filter(|&count| count > 0),
        ..device.launch(&scene)
    };
    let mut trainer =
        Trainer::resume(&dataset, checkpoint, engine).map_err(|e| placed(e, &scene))?;
    let shown = (&args.view, out, playback(RunFolder::open(out), &device));
    let live = live(viewer, shown, &dataset, &trainer, console)?;
    drop(dataset);
    trainer.set_launch(launch);
    let shown = Shown {
        live,
        snapshots: Snapshots::new(&folder, &trainer.plan().to_config(), count),
    };
    record_capture(&folder, (&scene, start), trainer.config(), console)?;
    run_into(&folder, &mut trainer, args.stop_at, shown, wall, console)
}

/// Returns true if the folder has a checkpoint or the lock of a running process.
fn holds_run(out: &Path) -> bool {
    RunFolder::open(out).checkpoint_path().exists() || out.join(RunLock::FILE).exists()
}

fn again(out: &Path) -> String {
    format!(
        "name it: `dapple train CAPTURE --resume {}`; photos, poses and sizes must be the same",
        out.display()
    )
}

/// Returns the devices of the command line, or else of the run, or else of the variable.
pub(super) fn device(args: &Args, checkpoint: &Checkpoint, console: &Console) -> DeviceOptions {
    let launch = &checkpoint.launch;
    let given = &args.device;
    let of_run = DeviceOptions::default().like_run(launch);
    if given.precision.is_some() && given.precision != of_run.precision {
        console.note(&format!(
            "note: the run started with --precision {}: it continues, but not bit for bit",
            launch.precision.as_deref().unwrap_or("f32")
        ));
    }
    let given = DeviceOptions {
        photo_memory: args.photo_memory,
        ranks: args.ranks_in_process,
        ..given.clone()
    };
    let own: Option<Device> = launch.device.as_deref().and_then(|d| d.parse().ok());
    let own = own.filter(|device| *device != Device::Auto);
    let device = given.device.clone();
    DeviceOptions {
        device: match given.is_of_variable {
            true => own.or(device),
            false => device.or(own),
        },
        ..given.like_run(launch)
    }
}

/// Refuses to replace a configuration that was edited by hand, if its settings are not the run's.
pub(super) fn refuse_edited_config(folder: &RunFolder, checkpoint: &Checkpoint) -> Result<()> {
    let path = folder.config_path();
    if !path.exists() || folder.has_own_config() {
        return Ok(());
    }
    let differences = checkpoint.config.differences(ConfigPatch::read(&path)?)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::input(format!(
        "the configuration was changed by hand, and a run continues with the settings that it began with: {}",
        described(&differences)
    ))
    .at_path(&path)
    .hint("move the file away to continue the run; for a run with these settings, omit --resume, and name the file with --config and another --out"))
}

/// Describes differences of settings: key, value of the run, value given.
fn described(differences: &[(String, String, String)]) -> String {
    let each: Vec<String> = differences
        .iter()
        .map(|(key, run, given)| format!("{key} = {given}, and the run has {run}"))
        .collect();
    each.join("; ")
}

/// Returns true if the capture of the run names the photos to hold out, or cannot be read.
fn has_own_split(args: &Args, checkpoint: &Checkpoint) -> bool {
    let scene = args.scene.as_ref().or(checkpoint.launch.capture.as_ref());
    let options = checkpoint.config.training_load_options();
    let capture = scene.map(|scene| load::open(scene, &options));
    !matches!(capture, Some(Ok(capture)) if !capture.own_split.as_ref().is_some_and(OwnSplit::is_own))
}

fn refuse_contradictions(args: &Args, checkpoint: &Checkpoint, out: &Path) -> Result<()> {
    let mut given = match &args.config {
        Some(file) => ConfigPatch::read(file)?,
        None => ConfigPatch::default(),
    };
    given = given.merged(args.patch());
    let mut differences = checkpoint.config.differences(given)?;
    let is_of_split = |(key, ..): &(String, String, String)| key == "data.own_split";
    // --eval-every replaces the capture's own split. Without one, nothing changes.
    if differences.iter().any(is_of_split) && !has_own_split(args, checkpoint) {
        differences.retain(|difference| !is_of_split(difference));
    }
    if differences.is_empty() {
        return Ok(());
    }
    if let Some(every) = args.patch().data.eval_every
        && let [only] = &*differences
        && is_of_split(only)
    {
        return Err(Error::input(format!(
            "--eval-every {every} replaces the capture's own split, which the run to continue uses"
        ))
        .at_path(out)
        .hint(
            "omit --eval-every to continue the run; for another run, omit --resume and name --out",
        ));
    }
    Err(Error::input(format!(
        "the options contradict the run to continue: {}",
        described(&differences)
    ))
    .at_path(out)
    .hint("omit them to continue the run; for another run, omit --resume and name --out"))
}
