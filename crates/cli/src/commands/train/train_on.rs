//! "Train on" from the page of a finished run: what `dapple train --continue RUN --steps +N` does.
//!
//! 1. After the results are written and printed, the viewer stays while a page is open. The folder is not locked then:
//!    other commands may use it.
//! 2. A request of a page runs the command itself, with the same viewer. The wait follows again.
//! 3. A part that cannot start or fails is reported on the page and on stderr, and the wait continues. If it was the
//!    last one, its error is that of the command.
//! 4. `dapple view RUN` trains a part by the same code: [`train_on`].

use super::{Args, Done, Wall, continued, report};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::viewing::ViewOptions;
use crate::{interrupt, ranks};
use clap::{Args as _, FromArgMatches as _};
use dapple::scene::{Error, ErrorKind, Result};
use dapple::train::Ending;
use std::ffi::OsString;
use std::path::Path;

/// Serves the pages of a finished run, and trains it on as often as pages request it.
///
/// # Errors
/// The last part has failed or was interrupted.
pub(super) fn serve(args: &Args, mut done: Done, console: &Console) -> Result<()> {
    loop {
        let is_finished = done.summary.ending == Ending::Finished;
        // Processes of MPI end with their run.
        if !is_finished || ranks::are_joined() {
            return Ok(());
        }
        let Some(live) = done.live.take().filter(|live| live.pages() > 0) else {
            return Ok(());
        };
        let out = done.summary.out.clone();
        drop(done);
        match next(live, args, &out, console)? {
            Some(part) => done = part,
            None => return Ok(()),
        }
    }
}

/// Waits for a request, and trains the part. Returns `None` if no page requests another part.
fn next(
    mut live: dapple::live::LiveHook<'static>,
    args: &Args,
    out: &Path,
    console: &Console,
) -> Result<Option<Done>> {
    let mut note = live.note().to_owned();
    console.note(&format!(
        "the page can train the run on; Ctrl-C or closing the page ends the viewer, and \
         `dapple train --continue {}` continues later",
        out.display()
    ));
    let mut failed = None;
    loop {
        let requested = {
            let _grace = interrupt::grace();
            live.wait(&note)
        };
        let Some(steps) = requested else {
            return failed.map_or(Ok(None), Err);
        };
        args.view.keep(live.viewer());
        let part = Args {
            view: args.view.clone(),
            ..part_args(out, steps)?
        };
        let trained = continued::continue_run(&part, out, Wall::start(), console);
        let error = match trained {
            Ok(mut done) => {
                report(args, &mut done, console)?;
                return Ok(Some(done));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => error,
        };
        note = failure(&error);
        console.note(&format!("warning: {note}"));
        failed = Some(error);
    }
}

/// Returns the text for the page on a part that was not trained.
pub fn failure(error: &Error) -> String {
    let mut text = format!("The run was not trained on: {}", error.what());
    if let Some(place) = error.place() {
        text.push_str(&format!("\nat: {place}"));
    }
    if let Some(hint) = error.hint_text() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}

/// Trains a run on with the viewer that `view` keeps, and prints the results.
///
/// # Errors
/// The part cannot start, fails or was interrupted.
pub fn train_on(
    run: &Path,
    steps: u32,
    view: &ViewOptions,
    device: &DeviceOptions,
    console: &Console,
) -> Result<()> {
    let part = Args {
        view: view.clone(),
        device: device.clone(),
        ..part_args(run, steps)?
    };
    let mut done = continued::continue_run(&part, run, Wall::start(), console)?;
    report(&part, &mut done, console)
}

/// Returns the options of `dapple train --continue OUT --steps +N`.
fn part_args(out: &Path, steps: u32) -> Result<Args> {
    let mut run = OsString::from("--continue=");
    run.push(out);
    let command = Args::augment_args(clap::Command::new("train"));
    let words = ["train".into(), run, format!("--steps=+{steps}").into()];
    let matches = command.try_get_matches_from(words);
    let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
    args.map_err(|e| Error::internal("the options of the part").caused_by(e))
}
