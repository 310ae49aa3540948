//! End of a run in a browser: pages still look at the splats, and may train the run on.
//!
//! 1. [`LiveHook::wait`] answers pages from the files of the run, on an engine that opens with the first request. Files
//!    are whole before the wait, so that the program may end at any time.
//! 2. The wait ends with the request of a page to train on, when the run is to stop, or [`REJOIN`] after the last page
//!    has closed.

use super::LiveHook;
use super::hook::PATIENCE;
use dapple_scene::{Error, Result};
use dapple_viewer::{Encoded, Request, Viewer};
use std::time::{Duration, Instant};

/// Time without a page before the wait ends: a page that is loaded again is gone for a moment.
const REJOIN: Duration = Duration::from_secs(3);

impl LiveHook<'_> {
    /// Returns the viewer, for a further part of the run.
    pub fn viewer(&self) -> Viewer {
        self.viewer.clone()
    }

    /// Returns the note on the end of the run; empty during the run.
    pub fn note(&self) -> &str {
        self.status.note.as_deref().unwrap_or_default()
    }

    /// Returns the number of connected pages.
    pub fn pages(&self) -> usize {
        self.viewer.pages()
    }

    /// Serves pages after the end of a run, and returns the number of steps that a page requests to train on. Returns
    /// `None` without [`super::LiveOptions::playback`], if the run is to stop, and after the last page has closed.
    pub fn wait(&mut self, note: &str) -> Option<u32> {
        self.options.playback.as_ref()?;
        let ended = self.status.note.replace(note.to_owned());
        self.status.paused = false;
        // Half as many steps again, as without --steps.
        self.status.train_on = Some((self.status.steps / 2).max(1));
        self.viewer.show(self.stage.clone());
        self.viewer.report(&self.status);
        let steps = self.answer_pages();
        if let Some(playback) = &mut self.options.playback {
            playback.close();
        }
        self.status.train_on = None;
        match steps {
            Some(steps) => {
                self.status.note = Some(format!("Training on for {steps} steps."));
                self.viewer.report(&self.status);
            }
            None => self.end(&ended.unwrap_or_else(|| note.to_owned())),
        }
        steps
    }

    fn answer_pages(&mut self) -> Option<u32> {
        let mut alone: Option<Instant> = None;
        while !(self.options.should_stop)() {
            if let Some(request) = self.viewer.train_on() {
                return Some(request.steps);
            }
            // Commands for a run that trains have no effect.
            self.viewer.commands();
            alone = match self.viewer.pages() {
                0 => Some(alone.unwrap_or_else(Instant::now)),
                _ => None,
            };
            if alone.is_some_and(|since| since.elapsed() > REJOIN) {
                return None;
            }
            if let Some(request) = self.viewer.next(PATIENCE) {
                let frame = self.frame(&request);
                self.viewer.answer(&request, frame);
            }
        }
        None
    }

    fn frame(&mut self, request: &Request) -> Result<Encoded> {
        let playback = self.options.playback.as_mut();
        let playback = playback.ok_or_else(|| Error::internal("the run has no files to show"))?;
        match request.look.snapshot {
            Some(step) => playback.picture(step, request, &self.settings),
            None => playback.results(request, &self.settings),
        }
    }
}
