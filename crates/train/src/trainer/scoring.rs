//! How a run scores its held-out photos, on the way and at its end.

use super::Trainer;
use crate::{EvalReport, EvalRow, Observer, Scoring, Seconds, Silent, evaluate, evaluate_aligned};
use dapple_engine::Pictures;
use dapple_scene::{Result, View};
use std::time::Instant;

impl Trainer {
    /// Scores the held-out photos with the present splats, by PSNR and SSIM.
    pub fn evaluate(&mut self) -> Result<EvalReport> {
        self.score(false, &mut Silent)
    }

    /// Scores the held-out photos as at the end of a run, by LPIPS too where the configuration names
    /// weights, and shows each view to the observer if it wants pictures.
    pub fn evaluate_at_the_end(&mut self, observer: &mut dyn Observer) -> Result<EvalReport> {
        self.score(true, observer)
    }

    fn score(&mut self, is_last: bool, observer: &mut dyn Observer) -> Result<EvalReport> {
        // Waiting for steps is training.
        self.drain(&mut Silent)?;
        let started = Instant::now();
        let settings = self.schedule.render_settings();
        let views: Vec<&View> = self.eval_views.iter().collect();
        let scoring = Scoring {
            lpips: self.lpips.as_ref().filter(|_| is_last),
            fitted: self.config.appearance.is_on(),
            pictures: is_last && observer.wants_pictures(),
        };
        let show = &mut |view: &View, pictures: Option<Pictures>| match pictures {
            Some(pictures) => observer.on_final_render(view, pictures),
            None => Ok(()),
        };
        let report = evaluate(self.engine.as_mut(), &views, &settings, &scoring, show)?;
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

    /// Counts time that was spent on the run outside of the trainer: opening the device, reading the
    /// capture.
    pub fn add_seconds(&mut self, seconds: &Seconds) {
        self.history.seconds = self.history.seconds.and(seconds);
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
