//! Drives an engine through a run.
//!
//! 1. Split the capture, make the first Gaussians, hand photos and Gaussians to the engine.
//! 2. Each step: ask the schedule for the numbers, enqueue the step and the density control that
//!    follows it, collect the reports of what has finished.
//! 3. Score held-out photos when the schedule says so, and at the end.
//! 4. Stop early when the observer asks, when a loss is not finite, or when no Gaussian is left.
//!
//! The trainer waits for the engine only to score and at the end.

use crate::history::Smoothed;
use crate::{
    Ending, EvalReport, EvalRow, History, LossRow, Observer, Outcome, Schedule, Silent,
    StepProgress, TrainConfig, ViewOrder, evaluate, init,
};
use dapple_engine::{Engine, Rendered, Report, TrainView, ViewId};
use dapple_scene::{Camera, Dataset, Error, Lens, Result, Splats, Split, View};
use std::time::Instant;

/// The near plane, where the configuration leaves it open, as a fraction of the scene's extent.
/// Gaussians right before a camera are fog in that photo and noise in all others: on `bird` they
/// cost single held-out photos 15 dB.
const NEAR_FRACTION: f64 = 0.05;

/// A run: an engine, its views, and how far it is.
pub struct Trainer {
    engine: Box<dyn Engine>,
    config: TrainConfig,
    schedule: Schedule,
    order: ViewOrder,
    view_ids: Vec<ViewId>,
    eval_views: Vec<View>,
    step: u32,
    gaussians: u64,
    history: History,
    smoothed_loss: Smoothed,
    smoothed_seconds: Smoothed,
    notes: Vec<String>,
}

impl Trainer {
    /// Prepares a run: checks the capture, makes the first Gaussians and hands everything to the
    /// engine.
    ///
    /// # Errors
    /// A configuration that contradicts itself, a capture that cannot be trained on (a single
    /// photo, none left after the split, a distorted camera, points that are lost), what the engine
    /// refuses.
    pub fn new(
        dataset: &Dataset,
        mut config: TrainConfig,
        mut engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let started = Instant::now();
        config.validate()?;
        let (train, eval) = choose_views(dataset, &config)?;
        for &index in train.iter().chain(&eval) {
            check_view(&dataset.views[index])?;
        }
        let extent = dataset.extent(&train);
        if !extent.is_finite() {
            return Err(Error::input("the cameras are not all at finite positions")
                .hint("the poses of this capture are broken: make them again"));
        }
        if config.near == 0.0 {
            config.near = NEAR_FRACTION * extent;
        }
        let splats = init::initial_splats(dataset, &train, extent, &config)?;
        let view_ids = engine.add_views(
            train
                .iter()
                .map(|&i| TrainView {
                    camera: dataset.views[i].camera,
                    photo: dataset.views[i].photo.clone(),
                })
                .collect(),
        )?;
        engine.upload(&splats, None)?;
        let history = History {
            seconds: crate::Seconds {
                setup: started.elapsed().as_secs_f64(),
                ..crate::Seconds::default()
            },
            ..History::default()
        };
        Ok(Self {
            schedule: Schedule::new(config.clone(), extent),
            order: ViewOrder::new(config.seed, view_ids.len()),
            view_ids,
            eval_views: eval.iter().map(|&i| dataset.views[i].clone()).collect(),
            step: 0,
            gaussians: splats.len() as u64,
            history,
            smoothed_loss: Smoothed::over(50.0),
            smoothed_seconds: Smoothed::over(20.0),
            notes: notes_on(dataset, eval.len(), splats.len()),
            engine,
            config,
        })
    }

    /// One training step, with the density control that follows it.
    ///
    /// # Errors
    /// What the engine cannot do; a loss that is not finite; no Gaussian left.
    pub fn step(&mut self) -> Result<()> {
        match self.advance(&mut Silent)? {
            Some(ending) => ending.error().map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// Runs to the last step of the configuration and scores the held-out photos. Can be called
    /// again after a stop: it goes on where it was.
    ///
    /// # Errors
    /// What the engine cannot do. A run that ends badly is not an error here, so that what there
    /// is can be saved: see [`Outcome::ending`].
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let mut ending = Ending::Finished;
        while self.step < self.config.last_step() {
            if observer.should_stop() {
                ending = Ending::Stopped(self.step);
                break;
            }
            if let Some(early) = self.advance(observer)? {
                ending = early;
                break;
            }
            let last = self.step >= self.config.last_step();
            if !last && self.schedule.evaluates_at(self.step) && !self.eval_views.is_empty() {
                let report = self.evaluate()?;
                observer.on_eval(self.step, &report);
            }
        }
        self.gaussians = self.splats()?.len() as u64;
        if let Some(late) = self.collect(observer)? {
            ending = late;
        }
        let mut eval = None;
        if ending.is_good() && !self.eval_views.is_empty() {
            let report =
                self.evaluate_each(&mut |view, rendered| observer.on_final_render(view, rendered))?;
            observer.on_eval(self.step, &report);
            eval = Some(report);
        }
        Ok(Outcome {
            ending,
            steps: self.step,
            gaussians: self.gaussians,
            eval,
        })
    }

    /// Scores the held-out photos with the present splats.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        self.evaluate_each(&mut |_, _| Ok(()))
    }

    /// Scores the held-out photos and shows each rendered view to `on_render`.
    pub fn evaluate_each(
        &mut self,
        on_render: &mut dyn FnMut(&View, &Rendered) -> Result<()>,
    ) -> Result<EvalReport> {
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        let views: Vec<&View> = self.eval_views.iter().collect();
        let report = evaluate(self.engine.as_mut(), &views, &settings, on_render)?;
        self.history.seconds.eval += started.elapsed().as_secs_f64();
        self.history.evals.push(EvalRow {
            step: self.step,
            psnr: report.psnr,
            ssim: report.ssim,
            gaussians: report.gaussians,
            train_seconds: self.history.seconds.train,
        });
        Ok(report)
    }

    /// The present splats.
    pub fn splats(&mut self) -> Result<Splats> {
        Ok(self.engine.download()?.0)
    }

    /// Renders the present splats as scoring does.
    pub fn render(&mut self, camera: &Camera) -> Result<Rendered> {
        let settings = self.schedule.render_settings();
        self.engine.render(camera, &settings)
    }

    /// Steps done.
    pub fn steps_done(&self) -> u32 {
        self.step
    }

    /// Gaussians, as far as is known without waiting for the engine.
    pub fn gaussians(&self) -> u64 {
        self.gaussians
    }

    /// The configuration of this run.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The numbers of each step.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What happened so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The engine and its device, for people.
    pub fn device(&self) -> String {
        self.engine.description()
    }

    /// Number of views trained on.
    pub fn train_view_count(&self) -> usize {
        self.view_ids.len()
    }

    /// The held-out views.
    pub fn eval_views(&self) -> &[View] {
        &self.eval_views
    }

    /// Remarks for the user: what of this run is not as they may expect.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The engine, for calls the trainer has no word for.
    pub fn engine_mut(&mut self) -> &mut dyn Engine {
        self.engine.as_mut()
    }

    /// One step; `Some` when the run cannot go on.
    fn advance(&mut self, observer: &mut dyn Observer) -> Result<Option<Ending>> {
        let started = Instant::now();
        let step = self.step + 1;
        let view = self.view_ids[self.order.view_at(step)];
        self.engine.step(view, &self.schedule.step_settings(step))?;
        if let Some(plan) = self.schedule.densify_plan(step) {
            self.engine.densify(&plan)?;
        }
        self.step = step;
        let seconds = started.elapsed().as_secs_f64();
        self.history.seconds.train += seconds;
        self.smoothed_seconds.push(seconds);
        self.collect(observer)
    }

    /// Takes in what has finished; `Some` when the run cannot go on.
    fn collect(&mut self, observer: &mut dyn Observer) -> Result<Option<Ending>> {
        let mut ending = None;
        for report in self.engine.poll()? {
            match report {
                Report::Step(done) => {
                    self.gaussians = done.counts.gaussians;
                    if !done.loss.is_finite() {
                        ending = ending.or(Some(Ending::NonFiniteLoss(done.step)));
                    }
                    self.smoothed_loss.push(f64::from(done.loss));
                    let progress = self.progress(done.step, done.loss);
                    self.history.losses.push(LossRow {
                        step: done.step,
                        loss: done.loss,
                        gaussians: done.counts.gaussians,
                        steps_per_second: progress.steps_per_second,
                    });
                    observer.on_step(&progress);
                }
                Report::Densify(done) => {
                    self.gaussians = done.total;
                    if done.total == 0 {
                        ending = ending.or(Some(Ending::NoGaussians(done.step)));
                    }
                    self.history.densify.push(done);
                    observer.on_densify(&done);
                }
                _ => {}
            }
        }
        Ok(ending)
    }

    fn progress(&self, step: u32, loss: f32) -> StepProgress {
        let steps = self.config.last_step();
        let seconds = self.smoothed_seconds.mean();
        StepProgress {
            step,
            steps,
            loss,
            smoothed_loss: self.smoothed_loss.mean() as f32,
            gaussians: self.gaussians,
            steps_per_second: if seconds > 0.0 { 1.0 / seconds } else { 0.0 },
            eta_seconds: seconds * f64::from(steps.saturating_sub(step)),
        }
    }
}

/// What of a run is not as its user may expect.
fn notes_on(dataset: &Dataset, eval_views: usize, gaussians: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if dataset.points.is_empty() {
        notes.push(format!(
            "the capture has no sparse points: training starts from {gaussians} random ones"
        ));
    }
    if eval_views == 0 {
        notes.push("no photo is held out: nothing will be scored".to_owned());
    }
    notes
}

/// The views to train on and those to score, within the configured numbers.
fn choose_views(dataset: &Dataset, config: &TrainConfig) -> Result<(Vec<usize>, Vec<usize>)> {
    match dataset.views.as_slice() {
        [] => {
            return Err(Error::input("the capture has no photos")
                .hint("check that the folder of the photos is complete"));
        }
        [only] => {
            return Err(Error::input(
                "the capture has a single photo: depth cannot be seen from one",
            )
            .at(only.name.clone())
            .hint("take at least 2, better 20 or more, from different places"));
        }
        _ => {}
    }
    let data = &config.data;
    let Split { train, eval } = dataset
        .split(data.eval_every)
        .limited(data.max_train_views, data.max_eval_views);
    if train.is_empty() {
        return Err(
            Error::input("every photo is held out: none is left to train on")
                .hint("raise data.eval_every, or set it to 0 to hold out none"),
        );
    }
    Ok((train, eval))
}

/// Engines take pinhole cameras of the photo's size.
fn check_view(view: &View) -> Result<()> {
    let (camera, photo) = (&view.camera, &view.photo);
    if camera.lens != Lens::Pinhole {
        return Err(
            Error::unsupported("this photo's lens distorts, and engines take pinholes")
                .at(view.name.clone())
                .hint("load the capture with dapple_scene::load, which undistorts"),
        );
    }
    if (camera.width, camera.height) != (photo.width, photo.height) {
        return Err(Error::input(format!(
            "the photo is {}x{} and its camera {}x{}",
            photo.width, photo.height, camera.width, camera.height
        ))
        .at(view.name.clone())
        .hint("resize the photo, or its camera with Camera::resized"));
    }
    let sound = camera.camera_from_world.is_finite()
        && [camera.cx, camera.cy].iter().all(|v| v.is_finite())
        && [camera.fx, camera.fy]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0)
        && photo.pixel_count() > 0;
    if !sound {
        return Err(Error::input(
            "this photo's camera is broken: a pose or focal length that is not finite, or no area",
        )
        .at(view.name.clone())
        .hint("leave the photo out, or make its pose again"));
    }
    Ok(())
}
