//! Density strategies: rules that change the number of Gaussians over a run. Each has a file and implements
//! [`DensityStrategy`].
//!
//! | strategy | rule |
//! |---|---|
//! | `adc` | clone, split, prune by screen-space gradients (Kerbl et al. 2023) |
//! | `budgeted` | `adc` along a curve that ends at `max_gaussians` |
//! | `mcmc` | relocate the dead, add copies of the opaque, walk at random (Kheradmand et al. 2024) |
//!
//! A strategy is a pure function of the configuration and the step: the engine holds all state. A new strategy needs a
//! file here, a name in [`Strategy`] and, if it needs an operation that [`DensifyPlan`] lacks, a file in each engine. A
//! program's own strategy needs none of these: [`crate::Trainer::with_strategy`].

mod adc;
mod budgeted;
mod mcmc;

use crate::TrainConfig;
use crate::config::{ConfigPatch, DataPatch, DensifyPatch, LearningRatePatch};
use dapple_engine::{DensifyPlan, Extras, LearningRates};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Rule that adds, moves and removes Gaussians, and its terms in `update`.
///
/// All three functions are pure: the same step gives the same result, for any order and number of calls, also in a
/// resumed run. A strategy has no state; the engine stores the statistics of density control (sums of gradients).
///
/// A `step` is a place of the configured schedule, from 1 to `TrainConfig::steps`. A run whose pace changes
/// ([`crate::time_budget`]) passes several places at once or stays at one for several steps. If it passes several,
/// the plan of the last place is taken. For each step of a run, the order of calls is:
///
/// 1. [`Self::accumulates`] and [`Self::extras`], before the step is enqueued.
/// 2. [`Self::plan`], after it. Anti-aliased runs also call it for the step before, since the 3D filters are computed
///    again after density control.
///
/// Lengths are world units, and the scene's size is [`crate::Schedule::extent`]; opacities are 0..1, gradients those of
/// [`DensifyPlan::grow_gradient`].
pub trait DensityStrategy: fmt::Debug + Send + Sync {
    /// Returns the name for checkpoints: a run resumes only with the strategy it began with.
    fn name(&self) -> &str;

    /// Returns the round of density control that follows step `step`, if there is one. The trainer sets
    /// [`DensifyPlan::step`], which keys random numbers.
    fn plan(&self, step: u32) -> Option<DensifyPlan>;

    /// Returns true if later rounds need the screen-space gradients of step `step`.
    fn accumulates(&self, step: u32) -> bool;

    /// Returns the additions of the strategy to step `step`, whose step sizes are `rates`. The run's seed keys random
    /// numbers.
    fn extras(&self, step: u32, rates: &LearningRates) -> Extras;
}

/// Returns the strategy that a configuration names, for a scene of this extent (world units).
pub(crate) fn of(config: &TrainConfig, extent: f64) -> Arc<dyn DensityStrategy> {
    let adc = || adc::Adc::new(config, extent);
    match config.densify.strategy {
        Strategy::Adc => Arc::new(adc()),
        Strategy::Budgeted => Arc::new(budgeted::Budgeted::new(adc(), config)),
        Strategy::Mcmc => Arc::new(mcmc::Mcmc::new(config, extent)),
    }
}

/// Converts a weight per extent to one per world unit. Zero if all cameras are at one place.
pub(crate) fn in_extents(weight: f64, extent: f64) -> f32 {
    if extent > 0.0 {
        (weight / extent) as f32
    } else {
        0.0
    }
}

/// Returns true if a round follows step `step`: every `every` steps between `start` and `stop`.
fn is_round(config: &TrainConfig, step: u32) -> bool {
    let densify = &config.densify;
    densify.enabled
        && (densify.start + 1..densify.stop).contains(&step)
        && step.is_multiple_of(densify.every.max(1))
}

/// Returns the number of rounds of the schedule, even if `steps` ends the run earlier.
fn rounds(config: &TrainConfig) -> u32 {
    let densify = &config.densify;
    let every = densify.every.max(1);
    let last = densify.stop.min(config.steps).saturating_sub(1);
    match densify.enabled {
        true => (last / every).saturating_sub(densify.start / every),
        false => 0,
    }
}

/// Returns the fraction of Gaussians that `mcmc` adds in a round if the configuration sets none: a twentieth, as
/// published, or a larger one that takes `first` Gaussians to the cap in `GROWN_AFTER` of the rounds. With a twentieth,
/// captures of few points never reached their cap: `room` ended with 76 thousand of a million, and with 200 thousand it
/// is 1.5 dB better (`docs/experiments/2026-11-21-steps-and-gaussians.md`).
pub fn growth(config: &TrainConfig, first: u64) -> f64 {
    let rounds = GROWN_AFTER * f64::from(rounds(config));
    let times = match (config.max_gaussians, first) {
        (0, _) | (_, 0) => 1.0,
        (most, first) => most as f64 / first as f64,
    };
    if rounds < 1.0 || times <= 1.0 {
        return LEAST_GROWTH;
    }
    // In thousandths, the unit of engines.
    let wanted = times.powf(1.0 / rounds) - 1.0;
    (1000.0 * wanted)
        .ceil()
        .clamp(1000.0 * LEAST_GROWTH, 1000.0 * MOST_GROWTH)
        / 1000.0
}

/// Names of the strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Adaptive density control, as published with 3D Gaussian Splatting.
    #[default]
    Adc,
    /// `adc` along a curve that ends at the Gaussian cap.
    Budgeted,
    /// Relocation and noise under a Gaussian cap.
    Mcmc,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 3] = [Self::Adc, Self::Budgeted, Self::Mcmc];

    /// Returns the name for the command line and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adc => "adc",
            Self::Budgeted => "budgeted",
            Self::Mcmc => "mcmc",
        }
    }

    /// Returns one line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Adc => "clone, split and prune by gradients, as published with 3DGS",
            Self::Budgeted => "the same, growing along a curve that ends at --max-gaussians",
            Self::Mcmc => "relocate and add up to the Gaussian cap, with noise and regularisers",
        }
    }

    /// Returns true if the strategy grows towards a number of Gaussians, and needs a cap.
    pub const fn has_budget(self) -> bool {
        matches!(self, Self::Budgeted | Self::Mcmc)
    }

    /// Returns the default strategy for a run of `steps`. Relocation grows by a twentieth a round and needs enough
    /// steps; then it beats `adc` on every capture measured (`docs/experiments/2026-11-21-strategies.md`).
    pub(crate) const fn for_steps(steps: u32) -> Self {
        if steps >= MCMC_STEPS {
            Self::Mcmc
        } else {
            Self::Adc
        }
    }

    /// Refuses contradictions in the settings of this strategy.
    ///
    /// # Errors
    /// The first contradiction, named by its key.
    pub(crate) fn validate(self, config: &TrainConfig) -> Result<()> {
        match self {
            Self::Adc | Self::Budgeted => adc::validate(config),
            Self::Mcmc => mcmc::validate(config),
        }
    }

    /// Returns the changes of this strategy to a preset whose schedule is written for `written_for` steps.
    pub(crate) fn patch(self, written_for: u32, absgrad: bool) -> ConfigPatch {
        match self {
            Self::Adc | Self::Budgeted => ConfigPatch {
                densify: DensifyPatch {
                    // Absolute gradients do not cancel and are larger: the threshold of AbsGS.
                    grow_gradient: absgrad.then_some(8e-4),
                    ..DensifyPatch::default()
                },
                ..ConfigPatch::default()
            },
            // The paper's values for its runs of 30 000 steps, except for the weight of scales (0.01 in the paper),
            // first scales (0.1), rates that are larger at first and fall at the end, and photos that are half as large
            // at first. Measured in `docs/experiments/2026-11-21-steps-and-gaussians.md` and
            // `2026-11-22-faster-shapes.md`.
            Self::Mcmc => ConfigPatch {
                initial_opacity: Some(0.5),
                initial_scale: Some(0.3),
                data: DataPatch {
                    coarse_until: Some(0.4),
                    ..DataPatch::default()
                },
                densify: DensifyPatch {
                    stop: Some((u64::from(written_for) * 25 / 30) as u32),
                    reset_every: Some(0),
                    opacity_reg: Some(0.01),
                    scale_reg: Some(0.02),
                    ..DensifyPatch::default()
                },
                learning_rates: LearningRatePatch {
                    early: Some(3.0),
                    decay: Some(0.1),
                    ..LearningRatePatch::default()
                },
                ..ConfigPatch::default()
            },
        }
    }
}

dapple_base::choice_setting!(Strategy);

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name)
            .ok_or_else(|| {
                Error::input(format!("there is no strategy named \"{name}\"")).hint(format!(
                    "choose one of {}",
                    Self::ALL.map(Self::name).join(", ")
                ))
            })
    }
}

/// Runs of at least this many steps use `mcmc` by default.
pub(crate) const MCMC_STEPS: u32 = 3500;

/// Bounds of the growth of `mcmc` in a round: at least the paper's twentieth, and at most so much that more than half
/// of the Gaussians have settled when the next round begins.
const LEAST_GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 0.3;

/// Part of the rounds after which a run has grown: later rounds only relocate.
const GROWN_AFTER: f64 = 2.0 / 3.0;
