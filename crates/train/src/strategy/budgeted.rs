//! `budgeted`: `adc` along a curve that ends at `max_gaussians`.
//!
//! Under a fixed cap, `adc` reaches it within a few rounds, with Gaussians in the regions that are blurred then. No
//! Gaussians are left for later regions. Here the difference to the cap shrinks as a parabola: with r rounds to go,
//! this one included, it falls from r^2 to (r - 1)^2, so that a round may add (2 r - 1) / r^2 of it. That is the
//! schedule of Taming 3DGS (Mallick et al. 2024, arXiv:2406.15643, section 3.1) in a form without state: Gaussians that
//! pruning removes are distributed again. The largest gradients grow first, as in every plan.

use super::adc::Adc;
use super::{DensityStrategy, Strategy, is_round};
use crate::TrainConfig;
use dapple_engine::{DensifyPlan, Extras, LearningRates};

/// The strategy `budgeted`, described in the module.
#[derive(Debug, Clone)]
pub(super) struct Budgeted {
    adc: Adc,
    config: TrainConfig,
}

impl Budgeted {
    /// A strategy over the rounds of `adc`.
    pub(super) fn new(adc: Adc, config: &TrainConfig) -> Self {
        Self {
            adc,
            config: config.clone(),
        }
    }

    /// Returns the share of the remaining Gaussians that the round after `step` may add.
    fn share(&self, step: u32) -> f32 {
        let densify = &self.config.densify;
        let last = densify.stop.saturating_sub(1).min(self.config.last_step());
        let every = densify.every.max(1);
        let rounds = f64::from((last / every).saturating_sub(step / every) + 1);
        ((2.0 * rounds - 1.0) / (rounds * rounds)) as f32
    }
}

impl DensityStrategy for Budgeted {
    fn name(&self) -> &str {
        Strategy::Budgeted.name()
    }

    fn plan(&self, step: u32) -> Option<DensifyPlan> {
        let mut plan = self.adc.plan(step)?;
        if is_round(&self.config, step) {
            plan.room_share = self.share(step);
        }
        Some(plan)
    }

    fn accumulates(&self, step: u32) -> bool {
        self.adc.accumulates(step)
    }

    fn extras(&self, step: u32, rates: &LearningRates) -> Extras {
        self.adc.extras(step, rates)
    }
}
