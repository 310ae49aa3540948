//! `adc`: adaptive density control (Kerbl et al. 2023, section 5.2), in the order of gsplat's default
//! strategy.
//!
//! 1. Every `every` steps between `start` and `stop`: clone and split where the mean screen-space
//!    gradient is large, prune what is transparent, and from the first reset on what is large.
//!    With `absgrad`, of the absolute gradients of pixels (AbsGS, Ye et al. 2024, arXiv:2404.10484):
//!    large Gaussians that pixels pull in all directions are split too.
//! 2. Every `reset_every` steps before `stop`: all opacities to at most twice the pruning threshold.

use super::{DensityStrategy, Strategy, is_round};
use crate::TrainConfig;
use dapple_engine::{DensifyPlan, Extras, LearningRates};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Adc {
    config: TrainConfig,
    extent: f64,
}

impl Adc {
    /// For a scene of this extent, world units.
    pub(super) fn new(config: &TrainConfig, extent: f64) -> Self {
        Self {
            config: config.clone(),
            extent,
        }
    }
}

impl DensityStrategy for Adc {
    fn name(&self) -> &str {
        Strategy::Adc.name()
    }

    fn plan(&self, step: u32) -> Option<DensifyPlan> {
        let densify = &self.config.densify;
        if !densify.enabled || step >= densify.stop {
            return None;
        }
        let refine = is_round(&self.config, step);
        let reset = densify.reset_every > 0 && step.is_multiple_of(densify.reset_every);
        if !refine && !reset {
            return None;
        }
        // Before the first reset large Gaussians may still be the only ones to cover a place.
        let prune_large = refine && densify.reset_every > 0 && step > densify.reset_every;
        Some(DensifyPlan {
            step,
            seed: self.config.seed,
            grow_gradient: refine.then_some(densify.grow_gradient as f32),
            split_scale: (densify.split_scale * self.extent) as f32,
            prune_opacity: refine.then_some(densify.prune_opacity as f32),
            prune_scale: prune_large.then_some((densify.prune_scale * self.extent) as f32),
            max_gaussians: self.config.gaussian_budget(),
            room_share: 1.0,
            // Twice the pruning threshold: what does not recover falls below it.
            reset_opacity: reset.then_some(2.0 * densify.prune_opacity as f32),
            relocate: None,
        })
    }

    fn accumulates(&self, step: u32) -> bool {
        self.config.densify.enabled && step < self.config.densify.stop
    }

    fn extras(&self, _: u32, _: &LearningRates) -> Extras {
        Extras {
            absolute_density: self.config.densify.absgrad,
            ..Extras::default()
        }
    }
}
