//! `mcmc`: Gaussians as samples (Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte
//! Carlo", arXiv:2404.09591).
//!
//! 1. Every `every` steps between `start` and `stop`, the dead (`prune_opacity`) become copies of living ones, drawn by
//!    opacity; `add` of their number are new copies, up to `max_gaussians`.
//! 2. Every step moves centres at random, along the Gaussian's own shape and by less the more opaque it is. The
//!    distance is `noise` times the step size of the centres, so that the noise decays with the step size.
//! 3. Regularisers (terms of the loss that any strategy can use) reduce opacities and scales that photos do not need,
//!    so that relocation finds dead Gaussians.

use super::{DensityStrategy, Strategy, growth, in_extents, is_round};
use crate::TrainConfig;
use dapple_base::settings::out_of_range;
use dapple_engine::{DensifyPlan, Extras, LearningRates, Relocation};
use dapple_scene::{Error, Result};

/// The strategy `mcmc`, described in the module.
#[derive(Debug, Clone)]
pub(super) struct Mcmc {
    config: TrainConfig,
    extent: f64,
    /// Gaussians added in a round, as a fraction.
    add: f64,
}

impl Mcmc {
    /// A strategy for a configuration with a Gaussian cap, in a scene of this extent (world units).
    pub(super) fn new(config: &TrainConfig, extent: f64) -> Self {
        Self {
            config: config.clone(),
            extent,
            add: match config.densify.add {
                // A trainer resolves the value; a schedule without a trainer uses the least growth.
                0.0 => growth(config, 0),
                add => add,
            },
        }
    }
}

/// Refuses settings of other strategies.
pub(super) fn validate(config: &TrainConfig) -> Result<()> {
    let densify = &config.densify;
    if densify.reset_every > 0 {
        return Err(Error::input(format!(
            "densify.reset_every = {} and densify.strategy = mcmc contradict each other",
            densify.reset_every
        ))
        .hint("mcmc never resets opacities: remove reset_every, or choose adc"));
    }
    if densify.absgrad {
        return Err(Error::input(
            "densify.absgrad and densify.strategy = mcmc contradict each other",
        )
        .hint("mcmc does not use gradients: remove absgrad, or choose adc"));
    }
    if !(densify.prune_opacity > 0.0 && densify.prune_opacity < 0.5) {
        let range = "larger than 0 and below 0.5 for mcmc, which relocates Gaussians below it";
        return Err(out_of_range(
            "densify.prune_opacity",
            densify.prune_opacity,
            range,
        ));
    }
    Ok(())
}

impl DensityStrategy for Mcmc {
    fn name(&self) -> &str {
        Strategy::Mcmc.name()
    }

    fn plan(&self, step: u32) -> Option<DensifyPlan> {
        let densify = &self.config.densify;
        is_round(&self.config, step).then(|| DensifyPlan {
            step,
            seed: self.config.seed,
            max_gaussians: self.config.gaussian_budget(),
            relocate: Some(Relocation {
                dead_opacity: densify.prune_opacity as f32,
                add_permille: (1000.0 * self.add).round() as u32,
            }),
            ..DensifyPlan::NOTHING
        })
    }

    fn accumulates(&self, _: u32) -> bool {
        false
    }

    fn extras(&self, _: u32, rates: &LearningRates) -> Extras {
        // A covariance is a length squared, and the step size is in units of the extent already: where the extent is 1,
        // this is the paper's number. In a world of another unit, the paper's number would move Gaussians by the unit's
        // square.
        let per_extent = self.config.densify.noise * f64::from(rates.means) / self.extent;
        Extras {
            noise: in_extents(per_extent, self.extent),
            ..Extras::default()
        }
    }
}
