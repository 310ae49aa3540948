//! Configuration of the differences between photos that a run learns: exposure, white balance, tone.

use super::{AppearanceConfig, AppearancePatch, ConfigPatch};
use dapple_engine::features::photometric::PhotometricSettings;
use dapple_engine::{AppearanceMlpSettings, AppearanceSettings};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// First and last step size of appearance embeddings in a run with the appearance MLP.
const MLP_RATES: [f64; 2] = [3e-2, 3e-3];

/// Step size of the network as a fraction of that of embeddings: every step moves the network, and its numbers are
/// smaller.
const NETWORK_SHARE: f64 = 0.1;

/// Step size of the Gaussians' features as a multiple of that of embeddings: the features of a Gaussian move less
/// often, only when it is visible.
const FEATURE_SHARE: f64 = 3.0;

/// Every n-th step renders its photo without its appearance embedding. The splats then keep the colours that the photos
/// share, and show the average appearance.
const NEUTRAL_EVERY: u32 = 4;

/// Weight of embeddings in the loss of a run with the appearance MLP.
const MLP_NEUTRAL: f64 = 1e-4;

/// Appearance model: the differences between photos that a run learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppearanceModel {
    /// No differences.
    #[default]
    None,
    /// One affine map of colours for the whole photo.
    Exposure,
    /// A grid of affine colour maps over x, y and luminance.
    Bilateral,
    /// A gain for each channel of a photo; vignetting and response curves of its camera.
    Photometric,
    /// A small network that computes colour changes from the position and the features of a Gaussian.
    Mlp,
}

impl AppearanceModel {
    /// All models.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Exposure,
        Self::Bilateral,
        Self::Photometric,
        Self::Mlp,
    ];

    /// Returns the name for the command line and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Exposure => "exposure",
            Self::Bilateral => "bilateral",
            Self::Photometric => "photometric",
            Self::Mlp => "mlp",
        }
    }

    /// Returns one line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::None => "photos are taken as they are",
            Self::Exposure => "one affine colour map per photo: exposure and white balance",
            Self::Bilateral => {
                "a grid of maps per photo over x, y and luminance: vignetting and tone mapping too"
            }
            Self::Photometric => {
                "exposure and white balance per photo, vignetting and response per camera: few numbers with a meaning"
            }
            Self::Mlp => {
                "an embedding per photo and a small network of positions and features: lamps that are lit in some photos, a sun that moves"
            }
        }
    }

    /// Returns the changes that this model makes to the base configuration.
    pub(crate) fn patch(self) -> ConfigPatch {
        let appearance = match self {
            Self::None | Self::Bilateral | Self::Photometric => AppearancePatch::default(),
            Self::Mlp => AppearancePatch {
                grid: Some([1; 3]),
                rate: Some(MLP_RATES[0]),
                rate_final: Some(MLP_RATES[1]),
                identity: Some(MLP_NEUTRAL),
                ..AppearancePatch::default()
            },
            Self::Exposure => AppearancePatch {
                grid: Some([1; 3]),
                ..AppearancePatch::default()
            },
        };
        ConfigPatch {
            appearance,
            ..ConfigPatch::default()
        }
    }
}

dapple_base::choice_setting!(AppearanceModel);

impl fmt::Display for AppearanceModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AppearanceModel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| {
            Error::input(format!("there is no appearance model named \"{name}\"")).hint(format!(
                "choose one of {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}

impl AppearanceConfig {
    /// Returns true if the run learns an appearance.
    pub fn is_on(&self) -> bool {
        self.model != AppearanceModel::None
    }

    /// Returns true if photos have grids of colour maps.
    pub fn has_grids(&self) -> bool {
        matches!(
            self.model,
            AppearanceModel::Exposure | AppearanceModel::Bilateral
        )
    }

    /// Returns true if photos have appearance embeddings.
    pub fn has_mlp(&self) -> bool {
        self.model == AppearanceModel::Mlp
    }

    /// Returns true if photos have a photometric model.
    pub fn has_photometric(&self) -> bool {
        self.model == AppearanceModel::Photometric
    }

    /// Returns the settings of the photometric model in step `step` of a run of `steps`.
    pub fn photometric_settings(&self, step: u32, steps: u32) -> Option<PhotometricSettings> {
        self.has_photometric().then_some(PhotometricSettings {
            rate: self.rate_at(step, steps) as f32,
            prior: self.identity as f32,
        })
    }

    /// Returns the grid settings of step `step` of a run of `steps`.
    pub fn settings(&self, step: u32, steps: u32) -> Option<AppearanceSettings> {
        self.has_grids().then_some(AppearanceSettings {
            cells: self.grid,
            rate: self.rate_at(step, steps) as f32,
            smoothness: self.smoothness as f32,
            identity: self.identity as f32,
        })
    }

    /// Returns the settings of the appearance MLP for a step. `None` until `start`, and in every fourth step after it.
    pub fn mlp_settings(&self, step: u32, steps: u32) -> Option<AppearanceMlpSettings> {
        let rate = self.rate_at(step, steps);
        if step.is_multiple_of(NEUTRAL_EVERY) {
            return None;
        }
        (self.has_mlp() && rate > 0.0).then_some(AppearanceMlpSettings {
            network_rate: (NETWORK_SHARE * rate) as f32,
            embedding_rate: rate as f32,
            feature_rate: (FEATURE_SHARE * rate) as f32,
            neutral: self.identity as f32,
        })
    }

    fn rate_at(&self, step: u32, steps: u32) -> f64 {
        let done = f64::from(step.saturating_sub(1)) / f64::from(steps.max(1));
        // At first the splats learn the average appearance. Maps that are learned before the splats are opaque
        // compensate for their darkness, and would keep the difference that all photos share.
        if self.rate > 0.0 && step > self.start {
            self.rate * (self.rate_final / self.rate).powf(done)
        } else {
            0.0
        }
    }

    /// Refuses contradictory values.
    pub(crate) fn validate(&self, steps: u32) -> Result<()> {
        dapple_engine::appearance::check_cells(self.grid).map_err(|e| e.at("appearance.grid"))?;
        if self.model == AppearanceModel::Exposure && self.grid != [1; 3] {
            return Err(Error::input(format!(
                "appearance.grid = {:?} and appearance.model = exposure contradict each other",
                self.grid
            ))
            .hint("an exposure is a grid of one cell: remove grid, or choose bilateral"));
        }
        if self.is_on() && self.start > steps {
            return Err(Error::input(format!(
                "appearance.start = {} lies beyond the last step, {steps}",
                self.start
            ))
            .hint("remove start: it scales with steps"));
        }
        if (self.rate > 0.0) != (self.rate_final > 0.0) {
            return Err(Error::input(
                "appearance.rate and rate_final must both be 0 or both be larger",
            )
            .hint("the rate falls log-linearly from one to the other"));
        }
        Ok(())
    }
}
