//! History of a run: losses, scores, density control and times.

use crate::{Budget, Continuation};
use dapple_engine::{DensifyReport, StepCounts};
use serde::{Deserialize, Deserializer, Serialize};

/// A finished step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossRow {
    /// Number of the step, from 1.
    pub step: u32,
    /// Loss of the step's photo. NaN is `null` in JSON.
    #[serde(deserialize_with = "nan_for_null")]
    pub loss: f32,
    /// Gaussians rendered in the step.
    pub gaussians: u64,
    /// Recent training steps a second.
    pub steps_per_second: f64,
}

fn nan_for_null<'de, D: Deserializer<'de>>(value: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or(f32::NAN))
}

/// A scoring of the held-out photos.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EvalRow {
    /// Steps done before the scoring.
    pub step: u32,
    /// Mean PSNR, dB.
    pub psnr: f64,
    /// Mean SSIM.
    pub ssim: f64,
    /// Mean LPIPS, if it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
    /// Mean PSNR inside the region of interest, dB; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_psnr: Option<f64>,
    /// Mean SSIM inside the region of interest; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_ssim: Option<f64>,
    /// Gaussians.
    pub gaussians: u64,
    /// Seconds of training before the scoring, without earlier scorings.
    pub train_seconds: f64,
}

/// An earlier scoring that was better than the last one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GotWorse {
    /// The best scoring.
    pub best: EvalRow,
    /// Difference of the last scoring to the best, dB.
    pub lost: f64,
}

impl GotWorse {
    /// Smallest difference that is reported, dB. Scorings of one run differ by up to this amount by chance.
    pub const LEAST: f64 = 0.1;

    /// Compares the scorings of a run, by step. `None` if the last is the best or close to it.
    pub fn find_in(evals: &[EvalRow]) -> Option<Self> {
        let (last, before) = evals.split_last()?;
        let best = before.iter().max_by(|a, b| a.psnr.total_cmp(&b.psnr))?;
        let lost = best.psnr - last.psnr;
        (lost >= Self::LEAST).then_some(Self { best: *best, lost })
    }
}

/// Time of a run by activity, over all commands that resumed it. Includes the time before the trainer existed if the
/// caller adds it ([`crate::Trainer::add_seconds`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Opening the device: driver and kernels.
    #[serde(default)]
    pub device: f64,
    /// Timing steps for a time budget.
    #[serde(default)]
    pub calibration: f64,
    /// Reading the capture.
    #[serde(default)]
    pub load: f64,
    /// Making and uploading the first Gaussians.
    pub setup: f64,
    /// Steps and density control, including waiting for the engine.
    pub train: f64,
    /// Scoring.
    pub eval: f64,
    /// Checkpoints: copies of the run to the host, and writing them.
    #[serde(default)]
    pub checkpoints: f64,
    /// Rendering for live viewers, and pauses that they request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub view: f64,
    /// Writing the results, and all time outside the other fields. In `metrics.json` up to its own writing.
    #[serde(default)]
    pub write: f64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl Seconds {
    /// Returns the sum of all fields.
    pub fn total(&self) -> f64 {
        let before = self.device + self.calibration + self.load + self.setup;
        before + self.train + self.eval + self.checkpoints + self.view + self.write
    }

    /// Returns `self` without the time in `others`.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        Self {
            device: self.device - others.device,
            calibration: self.calibration - others.calibration,
            load: self.load - others.load,
            setup: self.setup - others.setup,
            train: self.train - others.train,
            eval: self.eval - others.eval,
            checkpoints: self.checkpoints - others.checkpoints,
            view: self.view - others.view,
            write: self.write - others.write,
        }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        self.without(&Self::default().without(more))
    }
}

/// Effect of the per-tile limit `max_gaussians_per_tile` over all steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CapLosses {
    /// Steps in which the limit dropped instances.
    pub steps: u32,
    /// Most instances, (Gaussian, tile) pairs, that the limit dropped in a step.
    pub most_instances: u64,
    /// Largest transmittance at which the limit ended a pixel, 0..1: the visible share of the dropped Gaussians.
    pub largest_transmittance: f32,
}

impl CapLosses {
    pub(crate) fn take(&mut self, counts: &StepCounts) {
        self.steps += u32::from(counts.cut_instances > 0);
        self.most_instances = self.most_instances.max(counts.cut_instances);
        self.largest_transmittance = self.largest_transmittance.max(counts.lost_transmittance);
    }
}

/// History of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Every finished step.
    pub losses: Vec<LossRow>,
    /// Every round of density control.
    pub densify: Vec<DensifyReport>,
    /// Every scoring.
    pub evals: Vec<EvalRow>,
    /// Time by activity.
    pub seconds: Seconds,
    /// Effect of the per-tile limit.
    pub cap: CapLosses,
    /// Gaussian cap and its reason; `None` if the user set the cap or there is no limit.
    pub budget: Option<Budget>,
    /// Later parts of the run, in order.
    pub continuations: Vec<Continuation>,
}

/// An exponential mean that starts unbiased (the correction of Adam's moments).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Smoothed {
    decay: f64,
    sum: f64,
    weight: f64,
}

impl Smoothed {
    /// A mean over about `span` values.
    pub(crate) fn over(span: f64) -> Self {
        Self {
            decay: 1.0 - 1.0 / span,
            sum: 0.0,
            weight: 0.0,
        }
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.sum = self.sum * self.decay + value * (1.0 - self.decay);
        self.weight = self.weight * self.decay + (1.0 - self.decay);
    }

    /// Returns the mean; zero before the first value.
    pub(crate) fn mean(&self) -> f64 {
        if self.weight > 0.0 {
            self.sum / self.weight
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_got_worse_if_its_last_scoring_is_clearly_below_its_best() {
        let rows = |psnr: &[f64]| -> Vec<EvalRow> {
            let row = |(step, &psnr): (u32, &f64)| EvalRow {
                step,
                psnr,
                ssim: 0.5,
                lpips: None,
                focus_psnr: None,
                focus_ssim: None,
                gaussians: 10,
                train_seconds: 1.0,
            };
            (1..).zip(psnr).map(row).collect()
        };
        let step = |psnr: &[f64]| GotWorse::find_in(&rows(psnr)).map(|worse| worse.best.step);
        assert_eq!(step(&[20.0, 24.0, 23.0, 22.5]), Some(2));
        assert_eq!(step(&[20.0, 24.0, 23.95]), None);
        assert_eq!(step(&[20.0, 24.0, 25.0]), None);
        assert_eq!(step(&[20.0]), None);
        assert_eq!(step(&[]), None);
        let lost = GotWorse::find_in(&rows(&[24.0, 22.5])).map(|worse| worse.lost);
        assert_eq!(lost, Some(1.5));
    }
}
