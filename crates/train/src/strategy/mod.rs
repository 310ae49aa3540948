//! How the number of Gaussians changes over a run: one file a strategy, behind [`DensityStrategy`].
//!
//! | strategy | how |
//! |---|---|
//! | `adc` | clone, split, prune by screen-space gradients (Kerbl et al. 2023) |
//! | `budgeted` | the same, along a curve that ends at `max_gaussians` |
//! | `mcmc` | relocate the dead, add copies of the opaque, walk at random (Kheradmand et al. 2024) |
//!
//! A strategy is a pure function of the configuration and the step: the engine holds all state.
//! A new one is a file here, a name in [`Strategy`] and, if it does what no plan says yet, a file an
//! engine. One of a program's own needs none of that: [`crate::Trainer::with_strategy`].

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

/// Decides when Gaussians are added, moved and removed, and what `update` adds for it.
///
/// All three functions are pure: the same step gives the same answer, whenever and however often it is
/// asked, also in a run that goes on from a checkpoint. Nothing is kept here; what density control must
/// remember (sums of gradients) the engine keeps.
///
/// A `step` is a place of the schedule as configured, from 1 to `TrainConfig::steps`: a run whose pace
/// changes ([`crate::time_budget`]) passes some places at once or stays at one for several steps, and of the
/// plans of places passed at once the last is taken. For each step of a run, in this order:
///
/// 1. [`Self::accumulates`] and [`Self::extras`], before the step is enqueued.
/// 2. [`Self::plan`], after it. Anti-aliased runs ask it of the step before as well: the 3D filters are set
///    anew after density control.
///
/// Lengths are world units, and the scene's size is [`crate::Schedule::extent`]; opacities are 0..1, gradients those
/// of [`DensifyPlan::grow_gradient`].
pub trait DensityStrategy: fmt::Debug + Send + Sync {
    /// What checkpoints remember it by: a run goes on only with the strategy it began with.
    fn name(&self) -> &str;

    /// The round of density control that follows step `step`, if one does. The trainer sets
    /// [`DensifyPlan::step`], which keys random numbers.
    fn plan(&self, step: u32) -> Option<DensifyPlan>;

    /// Whether rounds to come need the screen-space gradients of step `step`.
    fn accumulates(&self, step: u32) -> bool;

    /// What `update` adds in step `step`, whose step sizes are `rates`. The trainer sets [`Extras::seed`], which keys
    /// random numbers.
    fn extras(&self, step: u32, rates: &LearningRates) -> Extras;
}

/// The strategy that a configuration names, for a scene of this extent (world units).
pub(crate) fn of(config: &TrainConfig, extent: f64) -> Arc<dyn DensityStrategy> {
    let adc = || adc::Adc::new(config, extent);
    match config.densify.strategy {
        Strategy::Adc => Arc::new(adc()),
        Strategy::Budgeted => Arc::new(budgeted::Budgeted::new(adc(), config)),
        Strategy::Mcmc => Arc::new(mcmc::Mcmc::new(config, extent)),
    }
}

/// A weight per extent, as one per world unit. Where all cameras stand in one place there is none.
pub(crate) fn in_extents(weight: f64, extent: f64) -> f32 {
    if extent > 0.0 {
        (weight / extent) as f32
    } else {
        0.0
    }
}

/// Whether a round follows step `step`: every `every` steps between `start` and `stop`.
fn is_round(config: &TrainConfig, step: u32) -> bool {
    let densify = &config.densify;
    densify.enabled
        && (densify.start + 1..densify.stop).contains(&step)
        && step.is_multiple_of(densify.every.max(1))
}

/// The rounds of a run that its schedule has, however short `steps` makes it.
fn rounds(config: &TrainConfig) -> u32 {
    let densify = &config.densify;
    let every = densify.every.max(1);
    let last = densify.stop.min(config.steps).saturating_sub(1);
    match densify.enabled {
        true => (last / every).saturating_sub(densify.start / every),
        false => 0,
    }
}

/// What `mcmc` adds in a round where the configuration leaves it open, as a fraction: a twentieth, as
/// published, or as much more as takes `first` Gaussians to their budget in `GROWN_AFTER` of the rounds.
/// Captures of few points never reached theirs: `room` ended with 76 thousand of a million, and with 200
/// thousand is 1.5 dB better (BENCHMARKS.md).
pub fn growth(config: &TrainConfig, first: u64) -> f64 {
    let rounds = GROWN_AFTER * f64::from(rounds(config));
    let times = match (config.max_gaussians, first) {
        (0, _) | (_, 0) => 1.0,
        (most, first) => most as f64 / first as f64,
    };
    if rounds < 1.0 || times <= 1.0 {
        return LEAST_GROWTH;
    }
    // In thousandths, as engines take it.
    let wanted = times.powf(1.0 / rounds) - 1.0;
    (1000.0 * wanted)
        .ceil()
        .clamp(1000.0 * LEAST_GROWTH, 1000.0 * MOST_GROWTH)
        / 1000.0
}

/// The names of the strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Adaptive density control, as published with 3D Gaussian Splatting.
    #[default]
    Adc,
    /// The same along a curve that ends at a budget.
    Budgeted,
    /// Relocation and noise under a budget.
    Mcmc,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Adc, Self::Budgeted, Self::Mcmc];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adc => "adc",
            Self::Budgeted => "budgeted",
            Self::Mcmc => "mcmc",
        }
    }

    /// One line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Adc => "clone, split and prune by gradients, as published",
            Self::Budgeted => "the same, growing along a curve that ends at --max-gaussians",
            Self::Mcmc => "relocate and add under a budget, with noise and regularisers",
        }
    }

    /// Whether it works towards a number of Gaussians, and needs one.
    pub const fn has_budget(self) -> bool {
        matches!(self, Self::Budgeted | Self::Mcmc)
    }

    /// The one for a run of so many steps where nobody names one. Relocation grows by a twentieth a round
    /// and needs the time; then it beats `adc` on every capture measured (BENCHMARKS.md).
    pub(crate) const fn for_steps(steps: u32) -> Self {
        if steps >= MCMC_STEPS {
            Self::Mcmc
        } else {
            Self::Adc
        }
    }

    /// What this strategy changes of a preset whose schedule is written for so many steps.
    pub(crate) fn patch(self, written_for: u32, absgrad: bool) -> ConfigPatch {
        match self {
            Self::Adc | Self::Budgeted => ConfigPatch {
                densify: DensifyPatch {
                    // What does not cancel is larger: the threshold of AbsGS.
                    grow_gradient: absgrad.then_some(8e-4),
                    ..DensifyPatch::default()
                },
                ..ConfigPatch::default()
            },
            // The paper's values for its runs of 30 000 steps, but for the weight of scales (0.01 there), first
            // scales (0.1), rates that are larger at first and fall at the end, and photos that are half as
            // large at first: measured, see BENCHMARKS.md.
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

/// Runs of at least so many steps relocate by default.
const MCMC_STEPS: u32 = 3500;

/// What `mcmc` adds in a round: the paper's twentieth at least, and not so much that half of a round's
/// Gaussians have not found their place when the next one comes.
const LEAST_GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 0.3;

/// The part of its rounds after which a run has grown: those that follow relocate.
const GROWN_AFTER: f64 = 2.0 / 3.0;
