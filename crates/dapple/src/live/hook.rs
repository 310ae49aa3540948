//! Hook that shows a run in a browser during training.
//!
//! 1. Between two steps, [`LiveHook`] periodically sends the progress to the pages, answers one page if the time share
//!    allows it, and executes the pages' commands.
//! 2. Snapshot playback uses a second engine; its time counts towards the same share.
//! 3. A paused run answers pages without a limit. It continues when a page resumes it, or when the run is stopped.
//! 4. A run stays paused when its last page closes, since a page may be closed on purpose and opened again. A note then
//!    names the address that resumes the run.
//!
//! Renders read the engine's state and do not change it.

use super::{InitialView, Playback, entries, stage};
use dapple_engine::RenderSettings;
use dapple_scene::{Dataset, Error, Result};
use dapple_train::{EvalReport, Event, Next, PausedRun, RunHook, Schedule, StepProgress, Trainer};
use dapple_viewer::{Command, Curves, Part, Share, Stage, Status, Viewer, ViewerOptions};
use std::fmt;
use std::time::{Duration, Instant};

/// Time between two reports, and between two frames of a page without motion.
const REPORT_EVERY: Duration = Duration::from_millis(400);

/// Time that a paused run waits for a request before it checks whether it is stopped.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// Time that the end of a run waits for pages to receive it.
const FAREWELL: Duration = Duration::from_millis(800);

/// Options of a live viewer. All have defaults.
pub struct LiveOptions<'a> {
    /// Address and port.
    pub viewer: ViewerOptions,
    /// Title of the pages.
    pub title: String,
    /// Largest share of the run's time for renders, 0.01 to 1.
    pub share: f64,
    /// Snapshots of the run, which pages can play back.
    pub playback: Option<Playback>,
    /// Parts of the run, if it was trained on.
    pub parts: Vec<Part>,
    /// Curves of the run so far.
    pub curves: Curves,
    /// Returns true if the run is to stop.
    pub should_stop: Box<dyn Fn() -> bool + Send + 'a>,
    /// Receives notes for the user.
    pub note: Box<dyn Fn(&str) + Send + 'a>,
    /// Returns the memory of the program, bytes.
    pub memory_bytes: fn() -> Option<u64>,
}

impl Default for LiveOptions<'_> {
    fn default() -> Self {
        Self {
            viewer: ViewerOptions::default(),
            title: "Dapple".to_owned(),
            share: 0.2,
            playback: None,
            parts: Vec::new(),
            curves: Curves::default(),
            should_stop: Box::new(|| false),
            note: Box::new(|_| {}),
            memory_bytes: || None,
        }
    }
}

/// Live viewer of a run; the module documents its schedule.
pub struct LiveHook<'a> {
    pub(super) viewer: Viewer,
    pub(super) options: LiveOptions<'a>,
    share: Share,
    pub(super) stage: Stage,
    pub(super) status: Status,
    /// Settings of renders of the finished splats.
    pub(super) settings: RenderSettings,
    begun: Instant,
    reported: Option<Instant>,
    paused: bool,
    /// True after the note that no page is left to resume the run.
    is_alone: bool,
    /// Steps before the next pause.
    steps: u32,
    save: bool,
}

impl fmt::Debug for LiveHook<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.viewer.url();
        f.debug_struct("LiveHook").field("url", &url).finish()
    }
}

impl<'a> LiveHook<'a> {
    /// Starts a viewer and shows a run on this capture, before the run starts or resumes.
    ///
    /// # Errors
    /// A port that is taken, or an address that this machine does not have.
    pub fn serve(dataset: &Dataset, trainer: &Trainer, options: LiveOptions<'a>) -> Result<Self> {
        Self::show(Viewer::start(&options.viewer)?, dataset, trainer, options)
    }

    /// Shows a run on this capture in a viewer that has started.
    ///
    /// # Errors
    /// The configuration cannot be written: a defect.
    pub fn show(
        viewer: Viewer,
        dataset: &Dataset,
        trainer: &Trainer,
        options: LiveOptions<'a>,
    ) -> Result<Self> {
        let cameras: Vec<_> = dataset.views.iter().map(|view| view.camera).collect();
        // The trainer has refused a capture without photos.
        let stance = InitialView::of_cameras(&cameras, None);
        let stance = stance.ok_or_else(|| Error::internal("a run without photos"))?;
        let (plan, gaussians) = (trainer.plan(), trainer.gaussians());
        let title = options.title.clone();
        let stage = Stage {
            cameras: entries(dataset, plan.config(), &[]),
            trains: true,
            settings: plan.to_config().to_toml()?,
            snapshots: options
                .playback
                .as_ref()
                .map(Playback::steps)
                .unwrap_or_default(),
            steps: plan.last_step(),
            parts: options.parts.clone(),
            curves: options.curves.clone(),
            outline: plan.config().focus.outline(),
            ..stage(title, trainer.device(), gaussians, &stance)
        };
        viewer.show(stage.clone());
        let status = Status {
            step: trainer.steps_done(),
            steps: plan.last_step(),
            loss: 0.0,
            psnr: None,
            gaussians,
            steps_per_second: 0.0,
            elapsed_seconds: 0.0,
            eta_seconds: None,
            memory_bytes: None,
            paused: false,
            note: None,
            train_on: None,
        };
        Ok(Self {
            settings: Schedule::new(plan.to_config(), 1.0).render_settings(),
            viewer,
            share: Share::new(options.share),
            options,
            stage,
            status,
            begun: Instant::now(),
            reported: None,
            paused: false,
            is_alone: false,
            steps: 0,
            save: false,
        })
    }

    /// Returns the address to open, with its token.
    pub fn url(&self) -> &str {
        self.viewer.url()
    }

    fn on_step(&mut self, progress: &StepProgress) {
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

    fn on_eval(&mut self, step: u32, report: &EvalReport) {
        self.status.psnr = Some(report.psnr);
        if let Some(part) = self.stage.parts.last_mut() {
            part.steps = self.status.steps;
            if step == part.steps {
                (part.psnr, part.ssim) = (Some(report.psnr), Some(report.ssim));
            }
        }
        for entry in &mut self.stage.cameras {
            if let Some(score) = report.images.iter().find(|s| s.name == entry.name) {
                entry.psnr = Some(score.psnr);
            }
        }
        self.stage.gaussians = self.status.gaussians;
        self.viewer.show(self.stage.clone());
    }

    /// Shows lines on what the present part of the run does.
    pub fn explain(&mut self, lines: Vec<String>) {
        self.stage.plan = lines;
        self.viewer.show(self.stage.clone());
    }

    /// Shows the snapshots again after a change.
    pub fn on_snapshots(&mut self) {
        let playback = self.options.playback.as_ref();
        self.stage.snapshots = playback.map(Playback::steps).unwrap_or_default();
        self.stage.steps = self.status.steps;
        self.stage.gaussians = self.status.gaussians;
        self.viewer.show(self.stage.clone());
    }

    /// Closes the playback if no page shows a snapshot.
    fn close_playback(&mut self) {
        if let Some(playback) = &mut self.options.playback
            && !self.viewer.shows_snapshot()
        {
            playback.close();
        }
    }

    /// Notes once that a paused run has no page left to resume it.
    fn note_if_alone(&mut self) {
        let is_alone = self.paused && self.viewer.pages() == 0;
        if is_alone && !self.is_alone {
            (self.options.note)(&format!(
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
            self.status.memory_bytes = (self.options.memory_bytes)();
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
        let playback = &mut self.options.playback;
        let picture = run.with_engine(|engine, settings| {
            // The wait for steps in flight is the run's own time.
            let started = Instant::now();
            let picture = match (request.look.snapshot, playback) {
                (Some(step), Some(playback)) => playback.picture(step, &request, settings),
                _ => request.picture(engine.as_mut(), settings),
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

impl RunHook for LiveHook<'_> {
    fn name(&self) -> &'static str {
        "live viewer"
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Step(progress) => self.on_step(progress),
            Event::Eval(step, report) => self.on_eval(*step, report),
            _ => {}
        }
        Ok(())
    }

    /// Serves pages. Returns [`Next::Checkpoint`] if a page has requested one.
    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        self.hear();
        self.report_now_and_then();
        self.close_playback();
        if self.viewer.pages() > 0 && self.share.is_ready(Instant::now()) {
            self.answer(run, Duration::ZERO)?;
        }
        if self.paused && self.steps > 0 {
            self.steps -= 1;
        }
        while self.paused && self.steps == 0 && !self.save && !self.should_stop() {
            self.close_playback();
            self.answer(run, PATIENCE)?;
            self.hear();
            self.note_if_alone();
        }
        Ok(match std::mem::take(&mut self.save) {
            true => Next::Checkpoint,
            false => Next::Continue,
        })
    }

    fn should_stop(&self) -> bool {
        (self.options.should_stop)()
    }
}

impl Drop for LiveHook<'_> {
    fn drop(&mut self) {
        // Pages receive the end of a run that its owner has not described.
        if self.status.note.is_none() {
            self.end("The run has ended.");
        }
    }
}
