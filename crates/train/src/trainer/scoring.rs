//! How a run scores its held-out photos, on the way and at its end.

use super::Trainer;
use crate::{CorrectedScores, EvalReport, EvalRow, Silent, evaluate, evaluate_aligned};
use dapple_engine::Rendered;
use dapple_scene::{Result, View};
use std::time::Instant;

impl Trainer {
    /// Scores the held-out photos with the present splats, by PSNR and SSIM.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        self.score(false, &mut |_, _| Ok(()))
    }

    /// Scores the held-out photos as at the end of a run, by LPIPS too where the configuration names
    /// weights, and shows each rendered view to `on_render`.
    pub fn evaluate_each(
        &mut self,
        on_render: &mut dyn FnMut(&View, &Rendered) -> Result<()>,
    ) -> Result<EvalReport> {
        self.score(true, on_render)
    }

    fn score(
        &mut self,
        is_last: bool,
        on_render: &mut dyn FnMut(&View, &Rendered) -> Result<()>,
    ) -> Result<EvalReport> {
        // Waiting for steps is training.
        self.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        let views: Vec<&View> = self.eval_views.iter().collect();
        let lpips = self.lpips.as_ref().filter(|_| is_last);
        let mut corrected = CorrectedScores::default();
        let corrects = self.config.appearance.is_on();
        let mut report = evaluate(
            self.engine.as_mut(),
            &views,
            &settings,
            lpips,
            &mut |view, rendered| {
                if corrects {
                    corrected.add(view, rendered, settings.background)?;
                }
                on_render(view, rendered)
            },
        )?;
        if corrects {
            corrected.put_into(&mut report);
        }
        self.history.seconds.eval += started.elapsed().as_secs_f64();
        // A run that is stopped where it was scored anyway.
        self.history.evals.retain(|row| row.step != self.step);
        self.history.evals.push(EvalRow {
            step: self.step,
            psnr: report.psnr,
            ssim: report.ssim,
            gaussians: report.gaussians,
            train_seconds: self.history.seconds.train,
        });
        Ok(report)
    }

    /// Scores the held-out photos, each with its pose fitted to the present splats.
    ///
    /// # Errors
    /// As [`evaluate_aligned`].
    pub fn evaluate_aligned(&mut self) -> Result<EvalReport> {
        self.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        let views: Vec<&View> = self.eval_views.iter().collect();
        let extent = self.schedule.extent();
        let report = evaluate_aligned(self.engine.as_mut(), &views, &settings, extent)?;
        self.history.seconds.eval += started.elapsed().as_secs_f64();
        Ok(report)
    }
}
