//! Live viewer: a run shown in a browser during training.
//!
//! 1. Between two steps, [`Live`] periodically sends the progress to the pages, answers one page if the
//!    time share allows it, and executes the pages' commands.
//! 2. Snapshot playback uses a second engine; its time counts towards the same share.
//! 3. A paused run answers pages without a limit. It continues when a page resumes it, or when Ctrl-C is pressed.
//! 4. A run stays paused when its last page closes, since a page may be closed on purpose and opened again. The
//!    terminal then names the address that resumes the run.
//!
//! Renders read the engine's state and do not change it.

use crate::console::Console;
use crate::snapshot_playback::SnapshotPlayback;
use crate::viewing::{InitialView, ViewOptions, entries, stage};
use dapple::scene::{Dataset, Result};
use dapple::train::{EvalReport, Next, PausedRun, StepProgress, Trainer};
use dapple_viewer::{Command, Share, Stage, Status, Viewer};
use std::time::{Duration, Instant};

/// Time between two reports, and between two frames of a page without motion.
const REPORT_EVERY: Duration = Duration::from_millis(400);

/// Time that a paused run waits for a request before it checks for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time that the end of a run waits for pages to receive it.
const FAREWELL: Duration = Duration::from_millis(800);

/// Live viewer of a run; the module documents its schedule.
#[derive(Debug)]
pub struct Live {
    viewer: Viewer,
    share: Share,
    stage: Stage,
    travel: SnapshotPlayback,
    status: Status,
    begun: Instant,
    reported: Option<Instant>,
    paused: bool,
    /// True after the note that no page is left to resume the run.
    is_alone: bool,
    /// Steps before the next pause.
    steps: u32,
    save: bool,
}

impl Live {
    /// Creates the viewer of a run on this capture, before the run starts or resumes.
    pub fn new(
        viewer: Viewer,
        options: &ViewOptions,
        title: String,
        dataset: &Dataset,
        trainer: &Trainer,
        travel: SnapshotPlayback,
    ) -> Result<Self> {
        let cameras: Vec<_> = dataset.views.iter().map(|view| view.camera).collect();
        // The trainer has refused a capture without photos.
        let stance = InitialView::of_cameras(&cameras, None);
        let stance =
            stance.ok_or_else(|| dapple::scene::Error::internal("a run without photos"))?;
        let config = trainer.config();
        let stage = Stage {
            cameras: entries(dataset, config, &[]),
            trains: true,
            settings: trainer.plan().to_config().to_toml()?,
            snapshots: travel.steps(),
            steps: trainer.plan().last_step(),
            ..stage(title, trainer.device(), trainer.gaussians(), &stance)
        };
        viewer.show(stage.clone());
        let status = Status {
            step: trainer.steps_done(),
            steps: trainer.plan().last_step(),
            loss: 0.0,
            psnr: None,
            gaussians: trainer.gaussians(),
            steps_per_second: 0.0,
            elapsed_seconds: 0.0,
            eta_seconds: None,
            memory_bytes: None,
            paused: false,
            note: None,
        };
        Ok(Self {
            viewer,
            share: Share::new(options.view_share),
            stage,
            travel,
            status,
            begun: Instant::now(),
            reported: None,
            paused: false,
            is_alone: false,
            steps: 0,
            save: false,
        })
    }

    /// Receives the progress of a step from the trainer.
    pub fn on_step(&mut self, progress: &StepProgress) {
        self.status = Status {
            step: progress.step,
            steps: progress.steps,
            loss: f64::from(progress.smoothed_loss),
            gaussians: progress.gaussians,
            steps_per_second: progress.steps_per_second,
            eta_seconds: Some(progress.eta_seconds),
            ..self.status.clone()
        };
    }

    /// Receives the scores of held-out photos from the trainer.
    pub fn on_eval(&mut self, report: &EvalReport) {
        self.status.psnr = Some(report.psnr);
        for entry in &mut self.stage.cameras {
            if let Some(score) = report.images.iter().find(|s| s.name == entry.name) {
                entry.psnr = Some(score.psnr);
            }
        }
        self.stage.gaussians = self.status.gaussians;
        self.viewer.show(self.stage.clone());
    }

    /// Receives a change of the snapshots.
    pub fn on_snapshots(&mut self) {
        self.stage.snapshots = self.travel.steps();
        self.stage.steps = self.status.steps;
        self.stage.gaussians = self.status.gaussians;
        self.viewer.show(self.stage.clone());
    }

    /// Serves pages between two steps. Returns [`Next::Checkpoint`] if a page has requested one.
    ///
    /// # Errors
    /// Receives a failure of the engine.
    pub fn between_steps(
        &mut self,
        run: &mut PausedRun<'_>,
        stop: impl Fn() -> bool,
        console: &Console,
    ) -> Result<Next> {
        self.hear();
        self.report_now_and_then();
        if !self.viewer.shows_snapshot() {
            self.travel.come_back();
        }
        if self.viewer.pages() > 0 && self.share.is_ready(Instant::now()) {
            self.answer(run, Duration::ZERO)?;
        }
        if self.paused && self.steps > 0 {
            self.steps -= 1;
        }
        while self.paused && self.steps == 0 && !self.save && !stop() {
            if !self.viewer.shows_snapshot() {
                self.travel.come_back();
            }
            self.answer(run, PATIENCE)?;
            self.hear();
            self.note_if_alone(console);
        }
        Ok(match std::mem::take(&mut self.save) {
            true => Next::Checkpoint,
            false => Next::Continue,
        })
    }

    /// Prints once that a paused run has no page left to resume it.
    fn note_if_alone(&mut self, console: &Console) {
        let is_alone = self.paused && self.viewer.pages() == 0;
        if is_alone && !self.is_alone {
            console.always(&format!(
                "warning: the run is paused after step {}, and the page that paused it has gone\n  \
                 hint: open {} and press Resume; Ctrl-C saves a checkpoint and ends the run",
                self.status.step,
                self.viewer.url()
            ));
        }
        self.is_alone = is_alone;
    }

    /// Executes the commands of the pages.
    fn hear(&mut self) {
        for command in self.viewer.commands() {
            match command {
                Command::Pause => (self.paused, self.steps) = (true, 0),
                Command::Resume => (self.paused, self.steps) = (false, 0),
                // The run is paused before the end of this step is counted.
                Command::Step => (self.paused, self.steps) = (true, self.steps.saturating_add(1)),
                Command::Save => self.save = true,
            }
            self.reported = None;
        }
        if self.status.paused != self.paused {
            self.status.paused = self.paused;
            self.report_now_and_then();
        }
    }

    fn report_now_and_then(&mut self) {
        let due = self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if !due {
            return;
        }
        self.reported = Some(Instant::now());
        self.status.elapsed_seconds = self.begun.elapsed().as_secs_f64();
        // A new page receives the last progress report, which is recent enough.
        if self.viewer.pages() > 0 {
            self.status.memory_bytes = crate::machine::peak_memory_bytes();
        }
        self.viewer.report(&self.status);
        self.viewer.changed();
    }

    /// Answers the next page with a request within this time.
    fn answer(&mut self, run: &mut PausedRun<'_>, patience: Duration) -> Result<()> {
        let asked = match patience.is_zero() {
            true => self.viewer.next(patience),
            false => run.rest(|| self.viewer.next(patience)),
        };
        let Some(request) = asked else {
            return Ok(());
        };
        let started = Instant::now();
        let travel = &mut self.travel;
        let picture = run.with_engine(|engine, settings| {
            // The wait for steps in flight is the run's own time.
            let started = Instant::now();
            let picture = match request.look.snapshot {
                Some(step) => travel.picture(step, &request, settings),
                None => request.picture(engine, settings),
            };
            (picture, started.elapsed())
        });
        let (picture, took) = match picture {
            Ok((picture, took)) => (picture, took),
            Err(error) => {
                self.end(&format!("the run has ended: {error}"));
                return Err(error);
            }
        };
        self.viewer.answer(&request, picture);
        // After a wait the device is idle for a moment too.
        let idle = (started.elapsed() - took).min(Duration::from_millis(2));
        self.share.spent(took + idle, Instant::now());
        Ok(())
    }

    /// Sends the end of the run to the pages, and waits until they have received it, for a short time.
    pub fn end(&mut self, note: &str) {
        self.status.note = Some(note.to_owned());
        self.status.paused = false;
        self.status.elapsed_seconds = self.begun.elapsed().as_secs_f64();
        self.viewer.report(&self.status);
        self.viewer.settle(FAREWELL);
    }
}
