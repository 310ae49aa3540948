//! `dapple train`: trains splats from a capture.

mod args;
mod background;
mod continued;
mod done;
mod duration;
mod from;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod lost;
mod resume;
mod time_budget;
pub mod train_on;
mod wall;

pub use args::Args;
pub use done::{Done, Summary};
pub use from::FromSplats;
pub use wall::Wall;

use crate::console::Console;
use crate::flamegraph::Flamegraph;
use crate::interrupt;
use crate::options::{
    DeviceOptions, NewFolders, merged_config, merged_config_for, placed, refuse_inputs,
};
use crate::photo_memory;
use crate::ranks;
use crate::training_display::{Shown, TrainingDisplay, gaussians, grouped};
use crate::viewing::{ViewOptions, curves, parts, playback, title};
use dapple::BoxedEngine;
use dapple::live::{LiveHook, LiveOptions, Playback, Viewer};
use dapple::scene::load::{self, load};
use dapple::scene::{Dataset, Error, Result, printable};
use dapple::train::config::SkyMode;
use dapple::train::time_budget::StepRateController;
use dapple::train::{
    CaptureRecord, ConfigPatch, EarlierRun, Outcome, PhotoCoverage, RunFolder, RunOrigin,
    Snapshots, StartSplats, TrainConfig, Trainer, train_into,
};
use std::path::Path;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let wall = Wall::start();
    if let Some(file) = &args.config {
        for (old, new) in ConfigPatch::old_keys(file)? {
            console.note(&format!("note: {}: {old} is now {new}", file.display()));
        }
    }
    args.refuse_added_steps()?;
    if ranks::join(&args.device, console)? {
        return Ok(());
    }
    let mut done = match (&args.resume, &args.continue_run) {
        (Some(out), _) => resume::resume(args, out, wall, console)?,
        (_, Some(run)) => continued::continue_run(args, run, wall, console)?,
        _ => match begin(args, wall, console)? {
            Some(done) => done,
            None => return Ok(()),
        },
    };
    report(args, &mut done, console)?;
    train_on::serve(args, done, console)
}

/// Prints the results.
///
/// # Errors
/// The run was interrupted.
fn report(args: &Args, done: &mut Done, console: &Console) -> Result<()> {
    done.end();
    if args.json {
        console.json(&done.summary)?;
    } else {
        console.outcome(&done.lines())?;
    }
    if done.as_asked {
        let Summary { steps, out, .. } = &done.summary;
        console.note(&format!(
            "stopped after step {steps} (--stop-at); `dapple train --resume {}` continues",
            out.display()
        ));
    }
    done.interruption().map_or(Ok(()), Err)
}

/// Starts a run; `None` if --print-config prints the configuration only.
fn begin(args: &Args, mut wall: Wall, console: &Console) -> Result<Option<Done>> {
    let mut config = match args.time_budget {
        // The plan sets the steps.
        Some(_) => merged_config(args.config.as_deref(), args.patch())?,
        None => config_for(args, console)?,
    };
    if args.print_config {
        console.data(config.to_toml()?.trim_end())?;
        return Ok(None);
    }
    args.check_depth(&config)?;
    let from = from::read(args, &mut config, console)?;
    let inherits = from.as_ref().is_some_and(|from| from.has_config);
    check_stop_at(args.stop_at, &config)?;
    let Some(scene) = &args.scene else {
        return Err(Error::internal("the parser let a missing CAPTURE pass"));
    };
    let out = args.out_folder(scene)?;
    if args.time_budget.is_some() {
        time_budget::refuse_steps(args)?;
        let options = config.training_load_options();
        refuse_inputs(&out, scene, &load::open(scene, &options)?, &options)?;
        refuse_results(&out, args.overwrite)?;
    }
    let device = DeviceOptions {
        // An explicit 0 disables the limit on every device.
        default_cap: args.patch().max_gaussians_per_tile.filter(|&cap| cap == 0),
        photo_memory: args.photo_memory,
        ranks: args.ranks_in_process,
        ..args.device.clone()
    };
    let job = Job {
        scene,
        out: &out,
        overwrite: args.overwrite,
        stop_at: args.stop_at,
        photo_memory: args.photo_memory,
        pacer: None,
        background_is_open: background::is_open(args)? && !inherits,
        from,
        launch: device.launch(scene),
        view: &args.view,
        device: &device,
    };
    let flamegraph = args.flamegraph.as_deref();
    if let Some(path) = flamegraph.filter(|path| RunFolder::open(&out).writes_to(path)) {
        return Err(Error::input("the run writes a file of its own there")
            .at_path(path)
            .hint("name another file after --flamegraph"));
    }
    let flamegraph = flamegraph
        .map(|path| Flamegraph::start(path, args.overwrite))
        .transpose()?;
    let title = format!("dapple train {}", scene.display());
    Flamegraph::around(flamegraph, &title, console, || {
        let mut job = job;
        let mut config = config;
        if let Some(seconds) = args.time_budget {
            let planned = wall.calibration(|| {
                time_budget::planned(args, seconds, scene, &config, &device, console)
            })?;
            let (seen, file) = (Some(planned.seen), args.config.as_deref());
            config = merged_config_for(seen, file, planned.patch)?;
            job.pacer = Some(planned.pacer);
        }
        let engine = wall.device(|| device.engine_for(&config, console))?;
        train(job, config, engine, wall, console).map(Some)
    })
}

/// Returns the configuration, fitted to the capture if there is one.
fn config_for(args: &Args, console: &Console) -> Result<TrainConfig> {
    let (file, flags) = (args.config.as_deref(), args.patch());
    let config = merged_config(file, flags.clone())?;
    let Some(scene) = &args.scene else {
        say_what_did_not_follow(args, None, console)?;
        return Ok(config);
    };
    let options = config.training_load_options();
    let capture = load::open(scene, &options)?;
    if !args.print_config {
        refuse_inputs(&args.out_folder(scene)?, scene, &capture, &options)?;
    }
    let train = config.data.split(&capture).train;
    let seen = PhotoCoverage::of_capture(&capture, &train);
    let photos = seen.photos;
    say_what_did_not_follow(args, Some(seen), console)?;
    let fitted = merged_config_for(Some(seen), file, flags)?;
    if fitted.steps != config.steps {
        let shared = seen.coverage.map_or(String::new(), |seen_by| {
            format!(" that show each place {seen_by:.0} times")
        });
        console.note(&format!(
            "steps: {}, the default for {photos} photos{shared} (--steps sets another number)",
            grouped(fitted.steps.into())
        ));
    }
    if fitted.schedule_steps != config.schedule_steps {
        console.note(&format!(
            "note: {} steps are more than {photos} photos need: the schedule takes {}, and later steps \
             have falling learning rates (--schedule-steps {} stretches the schedule)",
            grouped(fitted.steps.into()),
            grouped(fitted.schedule_steps.into()),
            fitted.steps
        ));
    }
    if fitted.data.validate_every != config.data.validate_every {
        console.note(&format!(
            "note: a schedule of {} steps is long for {photos} photos: some are withheld to detect \
             overfitting (--validate-every 0 trains on them)",
            grouped(fitted.schedule_length().into())
        ));
    }
    Ok(fitted)
}

/// Prints the schedule settings of a file that do not follow another number of `--steps`.
fn say_what_did_not_follow(
    args: &Args,
    seen: Option<PhotoCoverage>,
    console: &Console,
) -> Result<()> {
    let (Some(file), Some(steps)) = (&args.config, args.patch().steps) else {
        return Ok(());
    };
    let held = ConfigPatch::read(file)?.unscaled(steps, seen);
    if !held.is_empty() {
        console.note(&format!(
            "note: {} keeps the value of {}: --steps {} scales only settings of the preset",
            held.join(", "),
            file.display(),
            grouped(steps.into())
        ));
    }
    Ok(())
}

fn check_stop_at(stop_at: Option<u32>, config: &TrainConfig) -> Result<()> {
    match stop_at {
        Some(step) if step > config.last_step() => Err(Error::input(format!(
            "--stop-at {step} is after the last step, {}",
            config.last_step()
        ))
        .at("the options given")
        .hint("name an earlier step, or omit --stop-at to run to the end")),
        _ => Ok(()),
    }
}

/// Inputs of a new run.
pub struct Job<'a> {
    /// Capture.
    pub scene: &'a Path,
    /// Folder for the results.
    pub out: &'a Path,
    /// True to replace existing results.
    pub overwrite: bool,
    /// Step to stop after.
    pub stop_at: Option<u32>,
    /// Most bytes of decoded photos.
    pub photo_memory: Option<u64>,
    /// Controller of the step rate, for a time budget.
    pub pacer: Option<StepRateController>,
    /// True if no option sets a background, so that the photos can set it.
    pub background_is_open: bool,
    /// Splats to start from.
    pub from: Option<FromSplats>,
    /// Origin of the run, for its checkpoints.
    pub launch: RunOrigin,
    /// Options of the live viewer.
    pub view: &'a ViewOptions,
    /// Device to render snapshots on during the run.
    pub device: &'a DeviceOptions,
}

/// Trains a capture into a folder.
pub fn train(
    job: Job<'_>,
    config: TrainConfig,
    engine: BoxedEngine,
    wall: Wall,
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
    folders.unless_ok(train_new(job, config, engine, wall, console))
}

/// Refuses to replace results of a run, and files that Dapple has not written, without --overwrite.
fn refuse_results(out: &Path, overwrite: bool) -> Result<()> {
    RunFolder::open(out).refuse_for_new_run(overwrite, |earlier| match earlier {
        EarlierRun::Unfinished => format!(
            "`dapple train --resume {}` continues it; to start another run, name another \
             folder with --out, or give --overwrite to replace it",
            out.display()
        ),
        EarlierRun::Finished => {
            "name another with --out, or give --overwrite to replace them".to_owned()
        }
    })
}

fn train_new(
    job: Job<'_>,
    config: TrainConfig,
    engine: BoxedEngine,
    wall: Wall,
    console: &Console,
) -> Result<Done> {
    // Before reading the photos, so that this error appears first.
    let folder = RunFolder::create(job.out)?;
    // Checked again under the lock: another run may have ended here after the first check.
    refuse_results(job.out, job.overwrite)?;
    // A port in use fails before reading the photos, too.
    let viewer = job.view.start(console)?;
    train_shown(job, config, engine, (folder, viewer), wall, console)
}

/// Trains into an existing folder, with the viewer if the run is shown.
fn train_shown(
    job: Job<'_>,
    mut config: TrainConfig,
    engine: BoxedEngine,
    (folder, viewer): (RunFolder, Option<Viewer>),
    wall: Wall,
    console: &Console,
) -> Result<Done> {
    let dataset = load_capture(job.scene, &config, job.photo_memory, console)?;
    if job.background_is_open {
        background::follow_photos(&dataset, &mut config, console)?;
    }
    if job.launch.ranks.is_some() && config.sky == SkyMode::Auto {
        // Ranks cannot hold one yet, and the number of processes must not change a run.
        config.sky = SkyMode::Off;
    }
    let start = job.from.as_ref().map(|from| from.start.clone());
    let mut trainer = match job.from {
        Some(from) => from.trainer(&dataset, config, engine, console)?,
        None => Trainer::new(&dataset, config, engine).map_err(|e| placed(e, job.scene))?,
    };
    let played = playback(RunFolder::open(job.out), job.device);
    let shown = (job.view, job.out, played);
    let live = live(viewer, shown, &dataset, &trainer, console)?;
    drop(dataset);
    let count = job.view.snapshots(None);
    trainer.set_launch(RunOrigin {
        snapshots: Some(count).filter(|&count| count > 0),
        start: start.clone(),
        ..job.launch
    });
    if let Some(pacer) = job.pacer {
        trainer.set_pacer(pacer);
    }
    let shown = Shown {
        live,
        snapshots: Snapshots::new(&folder, &trainer.plan().to_config(), count),
    };
    record_capture(&folder, (job.scene, start), trainer.config(), console)?;
    run_into(&folder, &mut trainer, job.stop_at, shown, wall, console)
}

/// Returns the live viewer of a run, if --view is set.
fn live(
    viewer: Option<Viewer>,
    (view, out, playback): (&ViewOptions, &Path, Playback),
    dataset: &Dataset,
    trainer: &Trainer,
    console: &Console,
) -> Result<Option<LiveHook<'static>>> {
    let Some(viewer) = viewer else {
        return Ok(None);
    };
    let (console, history) = (console.clone(), trainer.history());
    let last = trainer.plan().last_step();
    let options = LiveOptions {
        parts: parts(&history.continuations, &history.evals, last),
        curves: curves(&history.losses, &history.evals),
        title: title(out),
        share: view.view_share,
        playback: Some(playback),
        should_stop: Box::new(interrupt::requested),
        note: Box::new(move |text| console.always(text)),
        memory_bytes: crate::machine::peak_memory_bytes,
        ..LiveOptions::default()
    };
    LiveHook::show(viewer, dataset, trainer, options).map(Some)
}

/// Records the path of the capture, and the splats that the run started from, in its folder.
fn record_capture(
    folder: &RunFolder,
    (scene, start): (&Path, Option<StartSplats>),
    config: &TrainConfig,
    console: &Console,
) -> Result<()> {
    let capture = load::open(scene, &config.load_options())?;
    match CaptureRecord::new(folder.path(), scene, &capture) {
        Some(record) => folder.write_capture(&CaptureRecord { start, ..record })?,
        None => console.note(
            "note: the path of the capture is not UTF-8: the run does not record it; name it with --capture",
        ),
    }
    Ok(())
}

pub fn load_capture(
    scene: &Path,
    config: &TrainConfig,
    photo_memory: Option<u64>,
    console: &Console,
) -> Result<Dataset> {
    let options = photo_memory::limited(config.training_load_options(), photo_memory);
    let dataset = load(scene, &options, &console.progress())?;
    let memory = photo_memory::note(&dataset, photo_memory);
    for note in dataset.notes.iter().chain(&memory) {
        console.note(&format!("note: {}", printable(note)));
    }
    Ok(dataset)
}

/// Returns the message for pages at the end of the run.
pub fn ended(outcome: &Result<Outcome>) -> String {
    match outcome {
        Ok(outcome) => match outcome.ending.error() {
            None => format!("The run has finished after {} steps.", outcome.steps),
            Some(why) => format!("The run has ended: {}.", why.what()),
        },
        Err(error) => format!("The run has ended: {}.", error.what()),
    }
}

/// Runs to the end, or to the step of --stop-at.
fn run_into(
    folder: &RunFolder,
    trainer: &mut Trainer,
    stop_at: Option<u32>,
    shown: Shown,
    mut wall: Wall,
    console: &Console,
) -> Result<Done> {
    for note in folder.lock_note().iter().chain(trainer.notes()) {
        console.note(&format!("note: {}", printable(note)));
    }
    let steps = trainer.plan().last_step();
    let from = match trainer.steps_done() {
        0 => String::new(),
        done => format!(" after step {done}"),
    };
    console.note(&format!(
        "training on {} photos, {} held out{}, from {}{from}: {steps} steps into {}",
        trainer.train_view_count(),
        trainer.eval_views().len(),
        match trainer.skipped_photos() {
            0 => String::new(),
            skipped => format!(", {skipped} missing"),
        },
        gaussians(trainer.gaussians()),
        folder.path().display()
    ));
    trainer.stop_at(stop_at);
    let grace = interrupt::grace();
    let mut display = TrainingDisplay::new(console, &grace, steps, shown);
    wall.training_begins(trainer);
    let outcome = train_into(folder, trainer, &mut display);
    display.finish(&ended(&outcome));
    for note in folder.renewal_note().iter().chain(&folder.state_note()) {
        console.note(&format!("note: {}", printable(note)));
    }
    let live = display.into_live();
    let mut done = Done::new(folder, trainer, &outcome?, stop_at, wall);
    done.live = live;
    Ok(done)
}
