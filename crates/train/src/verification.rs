//! Verification of a run: it is trained again, and compared with the record that it left.
//!
//! 1. [`Verifier`] is a hook of the second run. It compares each step, round of density control and scoring with
//!    `metrics.json` of the first, and stops the run at the first [`Difference`].
//! 2. [`crate::RunFolder::compare_splats`] compares the Gaussians at the end with `splats.ply`, bit by bit.
//!
//! Times, and the device, are not compared.

mod splats;

pub use splats::{SplatsComparison, TensorDifference};

use crate::event::Event;
use crate::hook::RunHook;
use crate::{EvalRow, Metrics};
use dapple_engine::DensifyReport;
use dapple_scene::Result;
use std::collections::BTreeMap;

/// The first difference of two runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Difference {
    /// Steps done.
    pub step: u32,
    /// Name of the number that differs.
    pub what: String,
    /// Value of the recorded run.
    pub recorded: String,
    /// Value of the second run.
    pub found: String,
}

/// Numbers that were compared and are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Compared {
    /// Losses of steps.
    pub losses: u32,
    /// Rounds of density control.
    pub rounds: u32,
    /// Scorings of held-out photos.
    pub scores: u32,
}

/// Hook that compares a run with the record of an earlier one.
#[derive(Debug)]
pub struct Verifier {
    /// Loss and number of Gaussians, by step.
    losses: BTreeMap<u32, (f32, u64)>,
    rounds: BTreeMap<u32, DensifyReport>,
    /// PSNR and SSIM, by step.
    scores: BTreeMap<u32, (f64, f64)>,
    compared: Compared,
    difference: Option<Difference>,
}

impl Verifier {
    /// Creates the hook for a run with this record.
    pub fn new(recorded: &Metrics) -> Self {
        let row = |row: &EvalRow| (row.step, (row.psnr, row.ssim));
        Self {
            losses: recorded
                .losses
                .iter()
                .map(|row| (row.step, (row.loss, row.gaussians)))
                .collect(),
            rounds: recorded
                .densify
                .iter()
                .map(|round| (round.step, *round))
                .collect(),
            scores: recorded.evals.iter().map(row).collect(),
            compared: Compared::default(),
            difference: None,
        }
    }

    /// Returns the first difference; `None` if all that was compared is equal.
    pub fn difference(&self) -> Option<&Difference> {
        self.difference.as_ref()
    }

    /// Returns how much was compared.
    pub fn compared(&self) -> Compared {
        self.compared
    }

    /// Returns true if the numbers are equal, and notes the first that are not.
    fn is_equal<T: PartialEq + ToString>(&mut self, step: u32, numbers: &[(&str, T, T)]) -> bool {
        let unequal = numbers
            .iter()
            .find(|(_, recorded, found)| recorded != found);
        if let Some((what, recorded, found)) = unequal
            && self.difference.is_none()
        {
            self.difference = Some(Difference {
                step,
                what: (*what).to_owned(),
                recorded: recorded.to_string(),
                found: found.to_string(),
            });
        }
        unequal.is_none()
    }

    fn compare_round(&mut self, found: &DensifyReport) {
        let recorded = self.rounds.get(&found.step).copied().unwrap_or_default();
        let equal = self.is_equal(
            found.step,
            &[
                ("Gaussians cloned", recorded.cloned, found.cloned),
                ("Gaussians split", recorded.split, found.split),
                ("Gaussians pruned", recorded.pruned, found.pruned),
                ("Gaussians refused", recorded.refused, found.refused),
                ("Gaussians relocated", recorded.relocated, found.relocated),
                ("Gaussians added", recorded.added, found.added),
                (
                    "Gaussians after density control",
                    recorded.total,
                    found.total,
                ),
            ],
        );
        self.compared.rounds += u32::from(equal);
    }
}

impl RunHook for Verifier {
    fn name(&self) -> &'static str {
        "verifier"
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Step(at) => {
                if let Some(&(loss, gaussians)) = self.losses.get(&at.step) {
                    let equal = self.is_equal(at.step, &[("loss", loss, at.loss)])
                        && self.is_equal(at.step, &[("Gaussians", gaussians, at.gaussians)]);
                    self.compared.losses += u32::from(equal);
                }
            }
            Event::Densify(round) => self.compare_round(round),
            Event::Eval(step, report) => {
                if let Some(&(psnr, ssim)) = self.scores.get(step) {
                    let numbers = [("PSNR", psnr, report.psnr), ("SSIM", ssim, report.ssim)];
                    self.compared.scores += u32::from(self.is_equal(*step, &numbers));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn should_stop(&self) -> bool {
        self.difference.is_some()
    }
}
