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
//! engine.

mod adc;
mod budgeted;
mod mcmc;

use crate::TrainConfig;
use crate::config::{ConfigPatch, DensifyPatch, LearningRatePatch};
use dapple_engine::{DensifyPlan, Extras, LearningRates};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Decides when Gaussians are added, moved and removed, and what `update` adds for it.
pub trait DensityStrategy: fmt::Debug + Send + Sync {
    /// The round of density control that follows step `step`, if one does.
    fn plan(&self, step: u32) -> Option<DensifyPlan>;

    /// Whether rounds to come need the screen-space gradients of step `step`.
    fn accumulates(&self, step: u32) -> bool;

    /// What `update` adds in step `step`, whose step sizes are `rates`.
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

/// The regularisers that a configuration asks for: any strategy takes them. Scales count in units of
/// the extent, so that the unit of the world does not matter.
fn regularisers(config: &TrainConfig, extent: f64) -> Extras {
    Extras {
        opacity_reg: config.densify.opacity_reg as f32,
        scale_reg: in_extents(config.densify.scale_reg, extent),
        ..Extras::default()
    }
}

/// A weight per extent, as one per world unit. Where all cameras stand in one place there is none.
fn in_extents(weight: f64, extent: f64) -> f32 {
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
            // The paper's values for its runs of 30 000 steps, but for the weight of scales (0.01 there) and
            // rates that fall at the end: measured, see BENCHMARKS.md.
            Self::Mcmc => ConfigPatch {
                initial_opacity: Some(0.5),
                initial_scale: Some(0.1),
                densify: DensifyPatch {
                    stop: Some((u64::from(written_for) * 25 / 30) as u32),
                    reset_every: Some(0),
                    opacity_reg: Some(0.01),
                    scale_reg: Some(0.02),
                    ..DensifyPatch::default()
                },
                learning_rates: LearningRatePatch {
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
const MCMC_STEPS: u32 = 5000;

/// Pixels of photos for each Gaussian of a default budget: 300 numbers for the 59 of a Gaussian, five
/// for each. With fewer it learns the photos by heart.
const PIXELS_PER_GAUSSIAN: u64 = 100;

/// Gaussians of a default budget for each sparse point: points are what could be told apart from
/// several places, so they say how much there is to show. A short schedule cannot make each Gaussian fit,
/// and shows more with more of them; in a long one they only take longer (BENCHMARKS.md). So their number
/// times the schedule's steps is this, within [`PER_POINT`].
const PER_POINT_STEPS: u64 = 70_000;

/// The fewest and the most Gaussians for each sparse point.
const PER_POINT: [u64; 2] = [5, 10];

/// The most that a default budget allows: what the published trainers take for scenes of any size.
const MOST_BY_DEFAULT: u64 = 1_000_000;

/// The budget of a strategy that needs one, where the configuration names none: by the sparse points
/// (none known: 0), the pixels it trains on and the steps of its schedule, and no fewer Gaussians than
/// the `first`.
pub fn default_budget(train_pixels: u64, points: u64, first: u64, schedule: u32) -> usize {
    let [fewest, most] = PER_POINT;
    let per_point = (PER_POINT_STEPS / u64::from(schedule.max(1))).clamp(fewest, most);
    let by_points = match points {
        0 => MOST_BY_DEFAULT,
        points => points.saturating_mul(per_point),
    };
    let most = by_points.clamp(1, MOST_BY_DEFAULT);
    let by_pixels = (train_pixels / PIXELS_PER_GAUSSIAN).clamp(1, most);
    usize::try_from(by_pixels.max(first)).unwrap_or(usize::MAX)
}
