//! `dapple photos --add`: adds photos to the model of a capture.

use super::{Args, MapperChoice, options};
use crate::console::Console;
use crate::{interrupt, known_capture};
use dapple::scene::{Error, Result};
use dapple::train::{ConfigPatch, RunFolder, TrainConfig};
use dapple_photos::{Added, Base, add, default_out};
use std::path::{Path, PathBuf};

/// Adds the photos to the capture of a run, or to a capture.
pub fn run(args: &Args, to: &Path, console: &Console) -> Result<()> {
    refuse_others(args)?;
    let is_run = to.join("capture.json").is_file();
    let (capture, images) = match is_run {
        true => of_run(to, console)?,
        false => (to.to_owned(), None),
    };
    let out = args.out.clone().unwrap_or_else(|| default_out(&capture));
    let options = options(args, out)?;
    let added = {
        let _grace = interrupt::grace();
        let base = Base::open(&capture, images)?;
        add(&options, &base, &console.progress())?
    };
    for note in &added.notes {
        console.note(&format!("note: {note}"));
    }
    for finding in &added.findings {
        console.note(&format!(
            "note: {}. Remedy: {}",
            finding.what, finding.remedy
        ));
    }
    match args.json {
        true => console.json(&added)?,
        false => console.outcome(&summary(&added))?,
    }
    let capture = added.capture.display();
    let next = match is_run.then(|| RunFolder::open(to).extend_capture(&added.capture)) {
        None => capture.to_string(),
        Some(Ok(())) => format!("--continue {}", to.display()),
        Some(Err(e)) => {
            console.note(&format!("note: the run does not have the new capture: {e}"));
            format!("{capture} --continue {}", to.display())
        }
    };
    console.note(&format!(
        "next: open {}, then dapple train {next}",
        added.report.display()
    ));
    Ok(())
}

/// Returns the capture of a run, and the folder of photos that the run used instead of the capture's own.
fn of_run(run: &Path, console: &Console) -> Result<(PathBuf, Option<PathBuf>)> {
    let file = run.join("config.toml");
    let capture = known_capture::needed(&file, console)
        .map_err(|e| e.hint("give the capture to --add instead of the run"))?;
    let config = TrainConfig::resolve(None, Some(&file), ConfigPatch::default())?;
    Ok((capture, config.load_options().images))
}

/// Refuses options that do not fit.
fn refuse_others(args: &Args) -> Result<()> {
    let global = args.mapper == MapperChoice::Global;
    let others = [
        (
            args.train,
            "--train",
            "run the command that the last line of the output names",
        ),
        (
            args.view.view,
            "--view",
            "omit it: the report shows the new photos in 3D",
        ),
        (
            args.distance.is_some(),
            "--distance",
            "omit it: the units of the capture are kept",
        ),
        (
            global,
            "--mapper global",
            "omit it: new photos are placed one after the other",
        ),
    ];
    match others.iter().find(|(is_given, ..)| *is_given) {
        Some((_, option, hint)) => Err(Error::input(format!(
            "{option} cannot be combined with --add"
        ))
        .at(*option)
        .hint(*hint)),
        None => Ok(()),
    }
}

fn summary(added: &Added) -> String {
    format!(
        "{}: {} of {} new photos have a pose, {} new points; {} photos and the points of {} are unchanged ({})",
        added.capture.display(),
        added.placed,
        added.photos,
        added.new_points,
        added.old_photos,
        added.from.display(),
        added.tool
    )
}
