//! Scoring of held-out photos, during a run and at its end.

use super::paused_run::PausedRun;
use super::run::Run;
use crate::evaluate::Lpips;
use crate::event::Event;
use crate::hook::{Next, RunHook};
use crate::{EvalReport, EvalRow, Scoring, evaluate, evaluate_aligned, evaluate_focus};
use dapple_engine::Pictures;
use dapple_scene::{Result, View};
use std::sync::Arc;
use std::time::Instant;

/// Held-out photos and the weights for their scores.
pub(crate) struct HeldOut {
    pub(crate) views: Vec<View>,
    /// For the last scoring, and for earlier ones if the engine's device computes it.
    pub(crate) lpips: Option<Lpips>,
}

impl RunHook for HeldOut {
    fn name(&self) -> &'static str {
        "scoring"
    }

    fn after_step(&mut self, run: &mut PausedRun<'_>) -> Result<Next> {
        let run = run.run();
        let step = run.state.step;
        if run.is_at_last_step() || !run.schedule.evaluates_at(step) || self.views.is_empty() {
            return Ok(Next::Continue);
        }
        run.drain()?;
        if run.has_finite_state() {
            let report = Arc::new(self.score(run, false, None)?);
            run.events.push(Event::Eval(step, report));
        }
        Ok(Next::Continue)
    }
}

/// Receiver of the pictures of each scored view.
pub(super) type Show<'a> = &'a mut dyn FnMut(&View, Pictures) -> Result<()>;

impl HeldOut {
    /// Scores the current splats as [`Self::measure`] does, and adds a row to the history.
    pub(super) fn score(
        &self,
        run: &mut Run,
        is_last: bool,
        show: Option<Show<'_>>,
    ) -> Result<EvalReport> {
        let report = self.measure(run, is_last, show)?;
        let step = run.state.step;
        let history = &mut run.state.history;
        // Replaces the row of a run that is stopped at a scored step.
        history.evals.retain(|row| row.step != step);
        history.evals.push(EvalRow {
            step,
            psnr: report.psnr,
            ssim: report.ssim,
            lpips: report.lpips,
            focus_psnr: report.focus.as_ref().map(|focus| focus.psnr),
            focus_ssim: report.focus.as_ref().map(|focus| focus.ssim),
            gaussians: report.gaussians,
            train_seconds: history.seconds.train,
        });
        Ok(report)
    }

    /// Scores the current splats, and passes the pictures of each view to `show`. Computes LPIPS too if the
    /// configuration names weights: at the end of a run, and earlier if the engine has a device for it, because the CPU
    /// takes longer for LPIPS than for all other scores.
    pub(super) fn measure(
        &self,
        run: &mut Run,
        is_last: bool,
        mut show: Option<Show<'_>>,
    ) -> Result<EvalReport> {
        // Waiting for steps counts as training time.
        run.drain()?;
        let started = Instant::now();
        let settings = run.schedule.render_settings();
        let views: Vec<&View> = self.views.iter().collect();
        let by_lpips = is_last || run.engine.gpu().is_some();
        let scoring = Scoring {
            lpips: self.lpips.as_ref().filter(|_| by_lpips),
            fitted: run.config().appearance.is_on(),
            pictures: show.is_some(),
        };
        let mut show = |view: &View, pictures: Option<Pictures>| match (pictures, &mut show) {
            (Some(pictures), Some(show)) => show(view, pictures),
            _ => Ok(()),
        };
        let mut report = evaluate(&mut run.engine, &views, &settings, &scoring, &mut show)?;
        if let Some(region) = run.config().focus.region.region() {
            report.focus = evaluate_focus(&mut run.engine, &views, &settings, region)?;
        }
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl HeldOut {
    /// Scores the held-out photos, each with its pose fitted to the current splats.
    pub(super) fn score_aligned(&self, run: &mut Run) -> Result<EvalReport> {
        run.drain()?;
        let started = Instant::now();
        let settings = run.schedule.render_settings();
        let views: Vec<&View> = self.views.iter().collect();
        let extent = run.schedule.extent();
        let report = evaluate_aligned(&mut run.engine, &views, &settings, extent)?;
        run.state.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(report)
    }
}
