//! Whole-run validation: detects overfitting with photos that are withheld, neither trained on nor scored.
//!
//! 1. Every `data.validate_every`-th photo that is not held out is withheld.
//! 2. [`LOOKS`] times in a run, and at its end, these photos are rendered, and their training loss is computed.
//! 3. The splats with the least loss so far are stored with the appearance learned by then, because colours of one step
//!    do not match the maps of another. If the last splats are worse by more than [`NOTICEABLE`], the run ends with the
//!    stored ones instead and reports it.
//!
//! Training photos cannot detect overfitting: their loss falls in any case. Held-out photos must not be used: scores of
//! photos that chose the splats are biased.

use crate::TrainConfig;
use crate::evaluate::{MeanLoss, mean_loss};
use dapple_engine::{Engine, EngineExt, RenderSettings, ViewState};
use dapple_scene::{Result, Splats, View};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Validations in a run. Each waits for the engine, and renders a sixteenth of the photos.
const LOOKS: u32 = 20;

/// Relative difference of losses that is not a fluctuation of the last steps.
const NOTICEABLE: f64 = 0.005;

/// Loss and PSNR of the validation photos after one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ValidationRow {
    /// Steps done before the validation.
    pub step: u32,
    /// Mean loss.
    pub loss: f64,
    /// Mean PSNR, dB.
    pub psnr: f64,
}

/// Result of the validation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchReport {
    /// Number of withheld photos.
    pub photos: usize,
    /// All validations.
    pub rows: Vec<ValidationRow>,
    /// Step whose splats the run ended with, if they were better than the last.
    pub kept_step: Option<u32>,
}

/// Splats and appearance with the best validation loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The Gaussians, as files hold them.
    pub splats: Splats,
    /// Learned parameters of the training photos; empty if the run learns none.
    pub views: ViewState,
}

/// Withheld photos, and the best splats so far.
pub(crate) struct Validation {
    pub(crate) views: Vec<View>,
    ssim_weight: f64,
    learns_appearance: bool,
    pub(crate) rows: Vec<ValidationRow>,
    pub(crate) best: Option<Arc<Best>>,
    pub(crate) kept_step: Option<u32>,
}

impl Validation {
    /// Validation of a run with this configuration.
    pub(crate) fn new(views: Vec<View>, config: &TrainConfig) -> Self {
        Self {
            views,
            ssim_weight: config.ssim_weight,
            learns_appearance: config.appearance.is_on(),
            rows: Vec::new(),
            best: None,
            kept_step: None,
        }
    }

    /// Returns true if a validation is due after step `step` of `steps`.
    pub(crate) fn is_due(&self, step: u32, steps: u32) -> bool {
        !self.views.is_empty() && (step == steps || step.is_multiple_of((steps / LOOKS).max(1)))
    }

    /// Returns the validation with the least loss.
    pub(crate) fn best_row(&self) -> Option<ValidationRow> {
        let least = |a: ValidationRow, b: ValidationRow| if b.loss < a.loss { b } else { a };
        self.rows.iter().copied().reduce(least)
    }

    /// Measures the engine's current splats, and stores them, as files hold them, if they are the best.
    pub(crate) fn validate(
        &mut self,
        step: u32,
        engine: &mut dyn Engine,
        settings: &RenderSettings,
    ) -> Result<()> {
        let Some(MeanLoss { loss, psnr }) =
            mean_loss(engine, &self.views, settings, self.ssim_weight)?
        else {
            return Ok(());
        };
        let row = ValidationRow { step, loss, psnr };
        if self.best_row().is_none_or(|best| row.loss < best.loss) {
            self.best = Some(Arc::new(Best {
                splats: engine.fused_splats()?,
                views: match self.learns_appearance {
                    true => engine.view_state()?,
                    false => ViewState::default(),
                },
            }));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Returns the splats to end with instead of the last ones, if those are worse.
    pub(crate) fn better_than_last(&mut self) -> Option<Arc<Best>> {
        let (best, last) = (self.best_row()?, *self.rows.last()?);
        if best.loss >= last.loss * (1.0 - NOTICEABLE) {
            return None;
        }
        self.kept_step = Some(best.step);
        self.best.take()
    }

    pub(crate) fn report(&self) -> Option<WatchReport> {
        (!self.views.is_empty()).then(|| WatchReport {
            photos: self.views.len(),
            rows: self.rows.clone(),
            kept_step: self.kept_step,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_scene::Photo;

    fn watched(losses: &[f64]) -> Validation {
        let mut watch = Validation::new(Vec::new(), &crate::Preset::Micro.config());
        watch.best = Some(Arc::new(Best {
            splats: Splats::empty(0),
            views: ViewState::default(),
        }));
        for (i, &loss) in losses.iter().enumerate() {
            watch.rows.push(ValidationRow {
                step: 10 * (i as u32 + 1),
                loss,
                psnr: 20.0,
            });
        }
        watch
    }

    #[test]
    fn a_run_is_looked_at_twenty_times_and_at_its_end() {
        let view = View {
            name: "a".to_owned(),
            camera: dapple_scene::Camera::pinhole(1, 1, 1.0, dapple_scene::Pose::IDENTITY),
            source_model: String::new(),
            photo: Photo::from_rgb(1, 1, vec![0; 3]).into(),
            depth: None,
        };
        let config = crate::Preset::Micro.config();
        let watch = Validation::new(vec![view], &config);
        let looks = |steps: u32| {
            (1..=steps)
                .filter(|&step| watch.is_due(step, steps))
                .count()
        };
        assert_eq!((looks(1000), looks(1010), looks(7)), (20, 21, 7));
        assert!(watch.is_due(1010, 1010));
        assert!(!Validation::new(Vec::new(), &config).is_due(1000, 1000));
    }

    #[test]
    fn the_last_splats_stay_unless_they_are_noticeably_worse() {
        let mut rising = watched(&[0.3, 0.2, 0.1]);
        assert!(rising.better_than_last().is_none());
        let mut flat = watched(&[0.3, 0.0999, 0.1]);
        assert!(flat.better_than_last().is_none() && flat.kept_step.is_none());
        let mut overfitted = watched(&[0.3, 0.09, 0.095, 0.1]);
        assert!(overfitted.better_than_last().is_some());
        assert_eq!(overfitted.kept_step, Some(20));
    }
}
