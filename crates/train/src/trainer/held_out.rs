//! Scoring of held-out photos, during a run and at its end.

use super::Trainer;
use super::companion::Companion;
use super::run::Run;
use crate::evaluate::Lpips;
use crate::{EvalReport, EvalRow, Observer, Scoring, Seconds, Silent, evaluate, evaluate_aligned};
use dapple_engine::Pictures;
use dapple_scene::{Result, View};
use std::time::Instant;

/// Held-out photos and the weights for their scores.
pub(crate) struct HeldOut {
    pub(crate) views: Vec<View>,
    /// For the last scoring, and for earlier ones if the engine's device computes it.
    pub(crate) lpips: Option<Lpips>,
}

impl Companion for HeldOut {
    fn after_step(&mut self, run: &mut Run, observer: &mut dyn Observer) -> Result<()> {
        let step = run.state.step;
        if run.is_at_last_step() || !run.schedule.evaluates_at(step) || self.views.is_empty() {
            return Ok(());
        }
        run.drain(observer)?;
        if run.has_finite_state() {
            let report = self.score(run, false, &mut Silent)?;
            observer.on_eval(step, &report);
        }
        Ok(())
    }
}

impl HeldOut {
    /// Scores the current splats, and passes each view to the observer if it wants pictures. Computes LPIPS too if the
    /// configuration names weights: at the end of a run, and earlier if the engine has a device for it, because the CPU
    /// takes longer for LPIPS than for all other scores.
    pub(super) fn score(
        &self,
        run: &mut Run,
        is_last: bool,
        observer: &mut dyn Observer,
    ) -> Result<EvalReport> {
        // Waiting for steps counts as training time.
        run.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = run.schedule.render_settings();
        let views: Vec<&View> = self.views.iter().collect();
        let by_lpips = is_last || run.engine.device_handle().is_some();
        let scoring = Scoring {
            lpips: self.lpips.as_ref().filter(|_| by_lpips),
            fitted: run.config().appearance.is_on(),
            pictures: is_last && observer.wants_pictures(),
        };
        let show = &mut |view: &View, pictures: Option<Pictures>| match pictures {
            Some(pictures) => observer.on_final_render(view, pictures),
            None => Ok(()),
        };
        let report = evaluate(run.engine.as_mut(), &views, &settings, &scoring, show)?;
        let step = run.state.step;
        let history = &mut run.state.history;
        history.seconds.eval += started.elapsed().as_secs_f64();
        // Replaces the row of a run that is stopped at a scored step.
        history.evals.retain(|row| row.step != step);
        history.evals.push(EvalRow {
            step,
            psnr: report.psnr,
            ssim: report.ssim,
            lpips: report.lpips,
            gaussians: report.gaussians,
            train_seconds: history.seconds.train,
        });
        Ok(report)
    }
}

impl Trainer {
    /// Scores the held-out photos with the current splats, by PSNR and SSIM; by LPIPS too if the configuration names
    /// weights and the engine has a device for it.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        let held_out = &self.companions.held_out;
        held_out.score(&mut self.run, false, &mut Silent)
    }

    /// Scores the held-out photos as at the end of a run, by LPIPS too if the configuration names weights, and passes
    /// each view to the observer if it wants pictures.
    pub fn evaluate_at_the_end(&mut self, observer: &mut dyn Observer) -> Result<EvalReport> {
        let held_out = &self.companions.held_out;
        held_out.score(&mut self.run, true, observer)
    }

    /// Adds time that was spent on the run outside of the trainer: opening the device, reading the capture.
    pub fn add_seconds(&mut self, seconds: &Seconds) {
        let history = &mut self.run.state.history;
        history.seconds = history.seconds.and(seconds);
    }

    /// Scores the held-out photos, each with its pose fitted to the current splats.
    ///
    /// # Errors
    /// See [`evaluate_aligned`].
    pub fn evaluate_aligned(&mut self) -> Result<EvalReport> {
        let run = &mut self.run;
        run.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = run.schedule.render_settings();
        let views: Vec<&View> = self.companions.held_out.views.iter().collect();
        let extent = run.schedule.extent();
        let report = evaluate_aligned(run.engine.as_mut(), &views, &settings, extent)?;
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(report)
    }
}
