//! `dapple train`: a capture into splats.

mod args;
mod background;
mod done;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod lost;
mod resume;
mod time_budget;
mod wall;

pub use args::{Args, preset_parser};
pub use done::{Done, Summary};
pub use wall::Wall;

use crate::console::Console;
use crate::flamegraph::Flamegraph;
use crate::interrupt;
use crate::live::Live;
use crate::options::{
    DeviceOptions, NewFolders, merged_config, merged_config_for, refuse_inputs, split,
};
use crate::photo_memory;
use crate::time_travel::TimeTravel;
use crate::training_display::{Shown, TrainingDisplay, gaussians, grouped};
use crate::viewing::ViewOptions;
use dapple::contract::Engine;
use dapple::scene::load::{self, load};
use dapple::scene::{Dataset, Error, Result, printable};
use dapple::train::time_budget::Pacer;
use dapple::train::{
    CaptureRecord, ConfigPatch, Launch, Outcome, Preset, RunFolder, Seen, Snapshots, TrainConfig,
    Trainer, Writes, train_into,
};
use dapple_viewer::Viewer;
use std::path::Path;

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let wall = Wall::start();
    let mut done = match &args.resume {
        Some(out) => resume::resume(args, out, wall, console)?,
        None => match begin(args, wall, console)? {
            Some(done) => done,
            None => return Ok(()),
        },
    };
    done.end();
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
fn begin(args: &Args, mut wall: Wall, console: &Console) -> Result<Option<Done>> {
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
    let out = args.out_folder(scene)?;
    if args.time_budget.is_some() {
        time_budget::refuse_steps(args)?;
        let options = config.training_load_options();
        refuse_inputs(&out, scene, &load::open(scene, &options)?, &options)?;
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
        background_is_open: background::is_open(args)?,
        launch: device.launch(scene),
        view: &args.view,
        device: &device,
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
            let planned = wall.calibration(|| {
                time_budget::planned(args, seconds, scene, &config, &device, console)
            })?;
            let (seen, file) = (Some(planned.seen), args.config.as_deref());
            config = merged_config_for(seen, preset, file, planned.patch)?;
            job.pacer = Some(planned.pacer);
        }
        let engine = wall.device(|| device.engine(console))?;
        train(job, config, engine, wall, console).map(Some)
    })
}

/// The configuration, fitted to the capture where one is named.
fn config_for(args: &Args, preset: Option<Preset>, console: &Console) -> Result<TrainConfig> {
    let (file, flags) = (args.config.as_deref(), args.patch()?);
    let config = merged_config(preset, file, flags.clone())?;
    let Some(scene) = &args.scene else {
        say_what_did_not_follow(args, None, console)?;
        return Ok(config);
    };
    let options = config.training_load_options();
    let capture = load::open(scene, &options)?;
    if !args.print_config {
        refuse_inputs(&args.out_folder(scene)?, scene, &capture, &options)?;
    }
    let train = split(&capture, &config.data).train;
    let cameras = train.iter().map(|&i| &capture.images[i].camera);
    let seen = Seen::of(cameras, &capture.points);
    let photos = seen.photos;
    say_what_did_not_follow(args, Some(seen), console)?;
    let fitted = merged_config_for(Some(seen), preset, file, flags)?;
    if fitted.steps != config.steps {
        let shared = seen.coverage.map_or(String::new(), |seen_by| {
            format!(" that show each place {seen_by:.0} times")
        });
        console.note(&format!(
            "steps: {}, which suit {photos} photos{shared} (--steps names others)",
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

/// Names the steps of the schedule that a file holds to although `--steps` asks for another length.
fn say_what_did_not_follow(args: &Args, seen: Option<Seen>, console: &Console) -> Result<()> {
    let (Some(file), Some(steps)) = (&args.config, args.steps) else {
        return Ok(());
    };
    let held = ConfigPatch::read(file)?.unscaled(steps, seen);
    if !held.is_empty() {
        console.note(&format!(
            "remark: {} stays as {} has it: --steps {} scales what a file leaves to its preset",
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
            "--stop-at {step} lies beyond the last step, {}",
            config.last_step()
        ))
        .at("the options given")
        .hint("leave --stop-at out to run to the end, or raise --steps")),
        _ => Ok(()),
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
    /// True if nothing names a background, so that it may follow the photos.
    pub background_is_open: bool,
    /// For its checkpoints.
    pub launch: Launch,
    /// Whether it is shown meanwhile.
    pub view: &'a ViewOptions,
    /// What snapshots are rendered on meanwhile.
    pub device: &'a DeviceOptions,
}

/// Trains a capture into a folder.
pub fn train(
    job: Job<'_>,
    config: TrainConfig,
    engine: Box<dyn Engine>,
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

/// Refuses to replace the results of a run, and what Dapple has not written, unless told to.
fn refuse_results(out: &Path, overwrite: bool) -> Result<()> {
    if overwrite {
        return Ok(());
    }
    let holds = |name: &str| out.join(name).exists();
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
    RunFolder::open(out).refuse_foreign(Writes::Run)
}

fn train_new(
    job: Job<'_>,
    config: TrainConfig,
    engine: Box<dyn Engine>,
    wall: Wall,
    console: &Console,
) -> Result<Done> {
    // Before the photos are read: better to fail now than after an hour.
    let folder = RunFolder::create(job.out)?;
    // Again: another run may have ended here just before this one came in.
    refuse_results(job.out, job.overwrite)?;
    // A port that is taken is told before the photos are read, too.
    let viewer = job.view.start(console)?;
    train_shown(job, config, engine, (folder, viewer), wall, console)
}

/// The same, once there are a folder and, where it is shown, a viewer.
fn train_shown(
    job: Job<'_>,
    mut config: TrainConfig,
    engine: Box<dyn Engine>,
    (folder, viewer): (RunFolder, Option<Viewer>),
    wall: Wall,
    console: &Console,
) -> Result<Done> {
    let dataset = load_capture(job.scene, &config, job.photo_memory, console)?;
    if job.background_is_open {
        background::follow_photos(&dataset, &mut config, console)?;
    }
    let mut trainer = Trainer::new(&dataset, config, engine).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(job.scene),
    })?;
    let travel = TimeTravel::new(folder.clone(), job.device.clone());
    let live = live(viewer, job.view, travel, job.out, &dataset, &trainer)?;
    drop(dataset);
    let count = job.view.snapshots(None);
    trainer.set_launch(Launch {
        snapshots: Some(count).filter(|&count| count > 0),
        ..job.launch
    });
    if let Some(pacer) = job.pacer {
        trainer.set_pacer(pacer);
    }
    let shown = Shown {
        live,
        snapshots: Snapshots::new(&folder, trainer.config(), count),
    };
    record_capture(&folder, job.scene, trainer.config(), console)?;
    run_into(&folder, &mut trainer, job.stop_at, shown, wall, console)
}

/// What shows a run that is about to begin, where it is wanted.
fn live(
    viewer: Option<Viewer>,
    options: &ViewOptions,
    travel: TimeTravel,
    out: &Path,
    dataset: &Dataset,
    trainer: &Trainer,
) -> Result<Option<Live>> {
    let Some(viewer) = viewer else {
        return Ok(None);
    };
    let title = super::view::title(out);
    Live::new(viewer, options, title, dataset, trainer, travel).map(Some)
}

/// Records in the folder of a run where its capture is.
fn record_capture(
    folder: &RunFolder,
    scene: &Path,
    config: &TrainConfig,
    console: &Console,
) -> Result<()> {
    let capture = load::open(scene, &config.load_options())?;
    match CaptureRecord::new(folder.path(), scene, &capture) {
        Some(record) => folder.write_capture(&record)?,
        None => console.note(
            "note: the path of the capture is no text: the run does not record it, and --scene is to name it",
        ),
    }
    Ok(())
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
        console.note(&format!("note: {}", printable(note)));
    }
    Ok(dataset)
}

/// For those who look on.
fn ended(outcome: &Result<Outcome>) -> String {
    match outcome {
        Ok(outcome) => match outcome.ending.error() {
            None => format!("The run has finished after {} steps.", outcome.steps),
            Some(why) => format!("The run has ended: {}.", why.what()),
        },
        Err(error) => format!("The run has ended: {}.", error.what()),
    }
}

/// Runs to the end, or to where it is to stop.
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
    let steps = trainer.config().last_step();
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
    Ok(Done::new(folder, trainer, &outcome?, stop_at, wall))
}
