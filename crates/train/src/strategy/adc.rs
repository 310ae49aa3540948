//! `adc`: adaptive density control (Kerbl et al. 2023, section 5.2), in the order of gsplat's default
//! strategy.
//!
//! 1. Every `every` steps between `start` and `stop`: clone and split Gaussians with a large mean screen-space
//!    gradient, prune transparent ones, and from the first reset on large ones. With `absgrad`, the mean is that of the
//!    absolute gradients of pixels (AbsGS, Ye et al. 2024, arXiv:2404.10484): it also splits large Gaussians that
//!    pixels pull in all directions.
//! 2. Every `reset_every` steps before `stop`: limit all opacities to twice the pruning threshold.

use super::{DensityStrategy, Strategy, is_round};
use crate::TrainConfig;
use dapple_base::settings::out_of_range;
use dapple_engine::{DensifyPlan, Extras, LearningRates};
use dapple_scene::Result;

/// The strategy `adc`, described in the module.
#[derive(Debug, Clone)]
pub(super) struct Adc {
    config: TrainConfig,
    extent: f64,
}

impl Adc {
    /// A strategy for a scene of this extent, world units.
    pub(super) fn new(config: &TrainConfig, extent: f64) -> Self {
        Self {
            config: config.clone(),
            extent,
        }
    }
}

/// Refuses thresholds that contradict each other.
pub(super) fn validate(config: &TrainConfig) -> Result<()> {
    let densify = &config.densify;
    if densify.enabled && densify.reset_every > 0 && densify.prune_opacity >= 0.5 {
        return Err(out_of_range(
            "densify.prune_opacity",
            densify.prune_opacity,
            "below 0.5 while opacities are reset to twice of it",
        ));
    }
    Ok(())
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
        // Before the first reset, only large Gaussians may cover a place.
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
            // Twice the pruning threshold: Gaussians that do not recover fall below it.
            reset_opacity: reset.then_some(2.0 * densify.prune_opacity as f32),
            ..DensifyPlan::NOTHING
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
