//! `dapple train --continue RUN`: a further part of a run that has finished or was stopped.
//!
//! 1. The part starts from the checkpoint of a stopped run, from the state of a finished run, or else from its splats.
//! 2. Its configuration is that of the run for the new number of steps, with the options on top
//!    ([`TrainConfig::continued`]). The numbers of its schedule are printed before the first step.
//! 3. Results are written into the folder of the run, or into --out. Splats, scores and state of the part before are
//!    replaced when the new ones are whole.

use super::resume::{device, refuse_edited_config};
use super::run_into;
use super::time_budget;
use super::{Args, Done, Wall, check_stop_at, live, load_capture, record_capture, refuse_results};
use crate::console::Console;
use crate::options::{NewFolders, placed, refuse_inputs};
use crate::training_display::{Shown, gaussians, grouped, joined_photos};
use crate::viewing::playback;
use dapple::scene::load::{self};
use dapple::scene::{Capture, Error, Result};
use dapple::train::time_budget::StepRateController;
use dapple::train::{
    Checkpoint, Continuation, Fingerprint, Joined, PhotoCoverage, RunFolder, RunOrigin, Schedule,
    Snapshots, TrainConfig, Trainer,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Continues the run in `run`.
pub fn continue_run(args: &Args, run: &Path, wall: Wall, console: &Console) -> Result<Done> {
    let out = args.out.as_deref().unwrap_or(run);
    let is_same = is_same_folder(run, out);
    if args.overwrite && is_same {
        return Err(Error::input("--overwrite has no effect with --continue")
            .at_path(run)
            .hint("omit it: the part replaces the results of the run; --out OUT keeps them"));
    }
    if !is_same {
        refuse_results(out, args.overwrite)?;
        let folders = NewFolders::before(out);
        crate::interrupt::remove_if_empty(&folders);
        return folders.unless_ok(continue_into(args, run, out, wall, console));
    }
    continue_into(args, run, out, wall, console)
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn continue_into(
    args: &Args,
    run: &Path,
    out: &Path,
    mut wall: Wall,
    console: &Console,
) -> Result<Done> {
    let is_same = is_same_folder(run, out);
    // Locked before reading, so that another process that trains there is found. A folder without a run does not change.
    let source = match is_same && RunFolder::open(run).holds_run() {
        true => RunFolder::create(run)?,
        false => RunFolder::open(run),
    };
    let ended = source.read_to_continue()?;
    source.refuse_obstacles()?;
    if is_same {
        refuse_edited_config(&source, &ended)?;
    }
    let (scene, may_differ) = capture_of(args, run, &ended)?;
    let config = next_config(args, &source, &scene, &ended, console)?;
    check_stop_at(args.stop_at, &config)?;
    if let Some(step) = args.stop_at.filter(|&step| step <= ended.step) {
        return Err(Error::input(format!(
            "--stop-at {step} is past: the run has done {} steps",
            ended.step
        ))
        .at_path(run)
        .hint("name a later step, or omit --stop-at to run to the end"));
    }
    let device = device(args, &ended, console);
    wall.goes_on(ended.history.seconds);
    let engine = wall.device(|| device.engine_for(&config, console))?;
    let folder = match is_same {
        true => source,
        false => RunFolder::create(out)?,
    };
    if !is_same {
        refuse_results(out, args.overwrite)?;
    }
    let viewer = args.view.start(console)?;
    let dataset = load_capture(&scene, &config, args.photo_memory, console)?;
    if !may_differ {
        let checked = ended.check_photos(&dataset, &config);
        checked.map_err(|e| {
            placed(e, &scene).hint(format!(
                "restore the capture; to train on these photos, name it: `dapple train {} --continue {}`",
                scene.display(),
                run.display()
            ))
        })?;
    }
    let count = args.view.snapshots(ended.launch.snapshots);
    let start = ended.launch.start.clone();
    let before = ended.config.clone();
    let pacer = pacer(args, &ended);
    let psnr = psnr_at_end(&ended);
    let mut trainer =
        Trainer::continue_run(&dataset, ended, config, engine).map_err(|e| placed(e, &scene))?;
    if let Some(pacer) = pacer {
        trainer.set_pacer(pacer);
    }
    if !is_same {
        folder.clear_older()?;
    }
    let shown = (&args.view, out, playback(RunFolder::open(out), &device));
    let mut live = live(viewer, shown, &dataset, &trainer, console)?;
    drop(dataset);
    trainer.set_launch(RunOrigin {
        start: start.clone(),
        snapshots: Some(count).filter(|&count| count > 0),
        ..device.launch(&scene)
    });
    record_capture(&folder, (&scene, start), trainer.config(), console)?;
    if let Some(part) = trainer.history().continuations.last() {
        let lines = plan(run, part, (&before, &trainer.plan().to_config()), psnr);
        for line in &lines {
            console.note(line);
        }
        if let Some(live) = &mut live {
            live.explain(lines);
        }
    }
    let shown = Shown {
        live,
        snapshots: Snapshots::new(&folder, &trainer.plan().to_config(), count),
    };
    run_into(&folder, &mut trainer, args.stop_at, shown, wall, console)
}

/// Returns the PSNR of the held-out photos at the end of the part before, if they were scored there.
fn psnr_at_end(ended: &Checkpoint) -> Option<f64> {
    let last = ended.history.evals.last();
    last.filter(|row| row.step == ended.step)
        .map(|row| row.psnr)
}

/// Returns the capture to continue with, and true if its photos may differ from those of the part before.
fn capture_of(args: &Args, run: &Path, ended: &Checkpoint) -> Result<(PathBuf, bool)> {
    if let Some(scene) = &args.scene {
        return Ok((scene.clone(), true));
    }
    let record = RunFolder::open(run).read_capture().ok().flatten();
    let extended = record.and_then(|record| record.extended);
    if let Some(extended) = extended.filter(|path| path.exists()) {
        return Ok((extended, true));
    }
    let again = || {
        format!(
            "name it: `dapple train CAPTURE --continue {}`",
            run.display()
        )
    };
    let Some(scene) = ended.launch.capture.clone() else {
        return Err(Error::input("the run has no path of its capture")
            .at_path(run)
            .hint(again()));
    };
    if !scene.exists() {
        return Err(
            Error::input("the capture of this run does not exist any more")
                .at_path(&scene)
                .hint(again()),
        );
    }
    Ok((scene, false))
}

/// Returns the configuration of the next part.
fn next_config(
    args: &Args,
    source: &RunFolder,
    scene: &Path,
    ended: &Checkpoint,
    console: &Console,
) -> Result<TrainConfig> {
    let mut given = args.given()?;
    if let Some(pacer) = pacer(args, ended) {
        time_budget::refuse_steps(args)?;
        given.steps = Some(ended.step.saturating_add(pacer.steps_of_part()));
        // Scores during the part are not in the budget.
        given.eval.every = given.eval.every.or(Some(0));
    }
    if args.config.is_some() && args.patch().steps.is_none() {
        // The steps of a file are those of its own run.
        given.steps = None;
    }
    if args.settings.adds_steps() && args.time_budget.is_none() {
        given.steps = given.steps.map(|more| ended.step.saturating_add(more));
    }
    let options = ended.config.training_load_options();
    let capture = load::open(scene, &options)?;
    if let Some(out) = &args.out {
        refuse_inputs(out, scene, &capture, &options)?;
    }
    if ended.state.first_moments.is_empty() {
        check_fingerprint(source, scene, &capture)?;
    }
    let new = new_photos(ended, &capture);
    if new > 0 && given.steps.is_none() && ended.config.last_step() <= ended.step {
        let more = Joined::default_steps(new, ended.step);
        given.steps = Some(ended.step.saturating_add(more));
        console.note(&format!(
            "steps: {} more, for {} (--steps +N sets another number)",
            grouped(more.into()),
            match new {
                1 => "1 new photo".to_owned(),
                _ => format!("{new} new photos"),
            }
        ));
    }
    let is_named = given.steps.is_some();
    let train = ended.config.data.split(&capture).train;
    let seen = PhotoCoverage::of_capture(&capture, &train);
    let added = args.settings.adds_steps() && given.steps == Some(ended.step);
    let config = ended
        .config
        .continued(ended.step, given, Some(seen))
        .map_err(|e| match (added, e.place()) {
            (true, _) => Error::input("--steps +0 adds no step")
                .at("the options given")
                .hint("name the number of further steps, for example --steps +2000"),
            (_, Some(_)) => e,
            _ => e.at("the options given"),
        })?;
    if !is_named && config.steps > ended.config.last_step() {
        console.note(&format!(
            "steps: {}, half as many again (--steps +N sets another number)",
            grouped(config.steps.into())
        ));
    }
    Ok(config)
}

/// Returns the controller of a part for a time budget.
fn pacer(args: &Args, ended: &Checkpoint) -> Option<StepRateController> {
    let before = (ended.step, ended.history.seconds.train);
    let budget = args.time_budget;
    budget.map(|seconds| StepRateController::for_part(seconds, before))
}

/// Returns the number of photos of a capture that the run does not know.
fn new_photos(ended: &Checkpoint, capture: &Capture) -> usize {
    let known: BTreeSet<&str> = ended
        .capture
        .views
        .iter()
        .map(|view| view.name.as_str())
        .collect();
    match known.is_empty() {
        true => 0,
        false => {
            let images = capture.images.iter();
            images
                .filter(|image| !known.contains(image.name.as_str()))
                .count()
        }
    }
}

/// Checks that a run without state continues with its own capture.
fn check_fingerprint(source: &RunFolder, scene: &Path, capture: &Capture) -> Result<()> {
    let Some(record) = source.read_capture()? else {
        return Ok(());
    };
    match record.fingerprint.difference(&Fingerprint::from_capture(capture)) {
        None => Ok(()),
        Some(differs) => Err(Error::input(format!("this run is of another capture: {differs}"))
            .at_path(scene)
            .hint("name the capture of the run, unchanged; --from starts a run with another capture")),
    }
}

/// Describes a part before its first step.
fn plan(
    run: &Path,
    part: &Continuation,
    (before, now): (&TrainConfig, &TrainConfig),
    psnr: Option<f64>,
) -> Vec<String> {
    let psnr = psnr.map_or(String::new(), |psnr| format!(", PSNR {psnr:.2} dB"));
    let with = match part.has_state {
        true => "with its optimizer state",
        false => "from its splats only: the optimizer starts without moments, at reduced rates",
    };
    let mut lines = vec![format!(
        "continues {} after step {} ({}{psnr}) to step {}, {with}",
        run.display(),
        grouped(part.after.into()),
        gaussians(part.gaussians),
        grouped(part.steps.into())
    )];
    let (first, last) = (part.after + 1, now.last_step());
    let (was, schedule) = (
        Schedule::new(before.clone(), 1.0),
        Schedule::new(now.clone(), 1.0),
    );
    let rate = |schedule: &Schedule, step| schedule.learning_rates(step).means;
    lines.push(format!(
        "  centres    learning rate {:.2e} to {:.2e} of the extent, {:.2e} at the end of the part before",
        rate(&schedule, first),
        rate(&schedule, last),
        rate(&was, part.after)
    ));
    lines.push(format!(
        "  density    {}",
        density(&schedule, (first, last), now)
    ));
    lines.push(format!(
        "  harmonics  degree {} at once, highest {}",
        schedule.sh_degree(first),
        now.sh_degree
    ));
    lines.extend(joined_photos(part).map(|photos| format!("  photos     {photos}")));
    for change in part.changes.iter().filter(|change| change.key != "steps") {
        lines.push(format!(
            "  changed    {} = {}, was {}",
            change.key, change.now, change.before
        ));
    }
    lines
}

/// Describes the density control of a part.
fn density(schedule: &Schedule, (first, last): (u32, u32), config: &TrainConfig) -> String {
    let rounds: Vec<u32> = (first..=last)
        .filter(|&step| schedule.densify_plan(step).is_some())
        .collect();
    let (Some(from), Some(to)) = (rounds.first(), rounds.last()) else {
        return "no Gaussian is added or removed".to_owned();
    };
    let cap = match config.max_gaussians {
        0 => "without a cap".to_owned(),
        most => format!("up to {}", gaussians(most as u64)),
    };
    format!(
        "{}, {} rounds from step {} to {}, {cap}",
        schedule.strategy_name(),
        grouped(rounds.len() as u64),
        grouped((*from).into()),
        grouped((*to).into())
    )
}
