//! "Train on" from the page of `dapple view RUN`.
//!
//! 1. A finished run, alone, on an address of this machine offers it. Any user who can open a page at another address could
//!    otherwise replace the results of the run.
//! 2. With unsaved edits the page shows the reason for not training: the part replaces the splats that they belong to.
//! 3. For the part, the engine of the pages closes; the viewer and its pages stay. Then the new results are shown.

use super::editing::Editing;
use super::{Args, Sight, chosen};
use crate::commands::train::train_on::{failure, train_on};
use crate::console::Console;
use crate::viewing::ViewOptions;
use dapple::live::Viewer;
use dapple::scene::{ErrorKind, Result};
use dapple::train::{Ending, Metrics, RunFolder};
use dapple_viewer::{Stage, Status};

/// Share of the time of training for renders, as `dapple train --view` has by default.
const SHARE: f64 = 0.2;

/// Offer to train a run on, and the progress that the page shows beside it.
pub struct Offer(Option<Status>);

/// Returns the progress of a run for the page.
pub fn status(metrics: &Metrics) -> Status {
    let last_loss = metrics.losses.last().map_or(0.0, |row| f64::from(row.loss));
    Status {
        step: metrics.steps,
        steps: metrics.steps,
        loss: last_loss,
        psnr: metrics.psnr,
        gaussians: metrics.gaussians,
        steps_per_second: metrics.steps_per_second,
        elapsed_seconds: metrics.seconds.total(),
        eta_seconds: None,
        memory_bytes: None,
        paused: false,
        note: None,
        train_on: (metrics.ending == Ending::Finished).then_some((metrics.steps / 2).max(1)),
    }
}

impl Offer {
    /// Returns the offer for the data shown, and marks its stage.
    pub fn of(sight: &Sight, args: &Args, stage: &mut Stage, note: Option<String>) -> Self {
        let is_run = match chosen(&args.paths) {
            Ok((path, None)) => path.is_dir() && RunFolder::open(path).holds_run(),
            _ => false,
        };
        let is_open = args.listen.host.is_some_and(|host| !host.is_loopback());
        let status = sight.status.clone();
        let status = status.filter(|s| is_run && !is_open && s.train_on.is_some());
        stage.trains = status.is_some();
        Self(status.map(|status| Status { note, ..status }))
    }

    /// Shows the offer on the pages.
    pub fn show(&self, viewer: &Viewer) {
        if let Some(status) = &self.0 {
            viewer.report(status);
        }
    }

    /// Returns the number of steps that a page requests, unless edits are unsaved.
    pub fn taken(&mut self, viewer: &Viewer, editing: &Editing) -> Option<u32> {
        let status = self.0.as_mut()?;
        // Commands for a run that trains have no effect.
        viewer.commands();
        let steps = viewer.train_on()?.steps;
        if editing.unsaved() == 0 {
            return Some(steps);
        }
        let why = "The run was not trained on: it has edits that are not saved, and training replaces its splats\n\
                   hint: save them to a file of their own, or undo them";
        status.note = Some(why.to_owned());
        viewer.report(status);
        None
    }
}

/// Trains the run on. Returns the text for the page if it could not be trained.
///
/// # Errors
/// The part was interrupted.
pub fn part(
    args: &Args,
    steps: u32,
    viewer: &mut Option<Viewer>,
    console: &Console,
) -> Result<Option<String>> {
    let (run, _) = chosen(&args.paths)?;
    let view = ViewOptions {
        view: true,
        view_share: SHARE,
        host: args.listen.host,
        port: args.listen.port,
        snapshots: None,
        kept: Default::default(),
    };
    if let Some(viewer) = viewer.as_ref() {
        view.keep(viewer.clone());
    }
    match train_on(run, steps, &view, &args.device, console) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) => {
            let note = failure(&error);
            console.note(&format!("warning: {note}"));
            Ok(Some(note))
        }
    }
}
