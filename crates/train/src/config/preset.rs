//! Named base configurations of a run.

use super::{
    AppearancePatch, BASE_STEPS, ConfigPatch, DataPatch, DensifyPatch, EvalPatch, TrainConfig,
};
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A named base configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// 100 steps on 12 photos, 3 000 Gaussians: tests all parts of a run.
    Micro,
    /// 50 steps, no densification: tests the start of a run.
    M8Smoke,
    /// 500 steps, no densification.
    M8,
    /// 1 000 steps with densification.
    M9,
    /// 2 000 steps, the full recipe scaled down.
    M10,
    /// The full recipe scaled down: 70 steps for each photo, 3 500 to 7 000.
    Quick,
    /// The full recipe: the larger of 130 x photos and 3 000 x photos / coverage, 7 000 to 30 000 steps.
    #[default]
    Standard,
    /// [`Self::Standard`] with 7 000 steps.
    #[serde(rename = "7k")]
    SevenThousand,
    /// [`Self::Standard`] with 30 000 steps.
    #[serde(rename = "30k")]
    ThirtyThousand,
}

impl Preset {
    /// All presets: small runs, then full recipes, each shortest first.
    pub const ALL: [Self; 9] = [
        Self::M8Smoke,
        Self::Micro,
        Self::M8,
        Self::M9,
        Self::M10,
        Self::Quick,
        Self::SevenThousand,
        Self::Standard,
        Self::ThirtyThousand,
    ];

    /// Returns the name for the command line and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Micro => "micro",
            Self::M8Smoke => "m8-smoke",
            Self::M8 => "m8",
            Self::M9 => "m9",
            Self::M10 => "m10",
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::SevenThousand => "7k",
            Self::ThirtyThousand => "30k",
        }
    }

    /// Returns one line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Micro => {
                "100 steps on 12 photos, 3 000 to 5 000 Gaussians: does everything work?"
            }
            Self::M8Smoke => "50 steps, no densification: does it start?",
            Self::M8 => "500 steps, no densification",
            Self::M9 => "1 000 steps with densification",
            Self::M10 => "2 000 steps, the full recipe scaled down",
            Self::Quick => "the full recipe scaled down: 70 steps for each photo, 3 500 to 7 000",
            Self::Standard => {
                "the full recipe: the larger of 130 x photos and 3 000 x photos / coverage, 7 000 to 30 000 steps"
            }
            Self::SevenThousand => "standard with 7 000 steps, as --steps 7000",
            Self::ThirtyThousand => "standard with 30 000 steps, as --steps 30000",
        }
    }

    /// Returns true for the presets that test an installation or a setting.
    pub const fn is_small(self) -> bool {
        self.steps() <= Self::M10.steps()
    }

    /// Returns the steps of the run, unless another layer sets them.
    pub const fn steps(self) -> u32 {
        match self {
            Self::Micro => 100,
            Self::M8Smoke => 50,
            Self::M8 => 500,
            Self::M9 => 1000,
            Self::M10 => 2000,
            Self::Quick | Self::SevenThousand => 7000,
            Self::Standard | Self::ThirtyThousand => BASE_STEPS,
        }
    }

    /// Returns true for the full recipe, scaled or not.
    const fn is_full(self) -> bool {
        !self.is_small() || matches!(self, Self::M10)
    }

    /// Returns the steps that the schedule of this preset is written for. The short presets have their own schedule,
    /// because the base recipe scaled to 100 steps would densify after every third photo.
    pub(super) const fn written_for(self) -> u32 {
        match self.is_full() {
            true => BASE_STEPS,
            false => self.steps(),
        }
    }

    /// Returns the changes of this preset to the base, before scaling.
    pub(super) fn patch(self) -> ConfigPatch {
        let own_schedule = |sh_every, densify, eval_every| ConfigPatch {
            sh_every: Some(sh_every),
            densify,
            appearance: AppearancePatch {
                // In a tenth of these runs splats become as opaque as in 1000 steps of the base schedule.
                start: Some((self.steps() / 10).max(1)),
                ..AppearancePatch::default()
            },
            eval: EvalPatch {
                every: Some(eval_every),
                ..EvalPatch::default()
            },
            ..ConfigPatch::default()
        };
        let fixed = DensifyPatch {
            enabled: Some(false),
            ..DensifyPatch::default()
        };
        // No opacity reset: these runs end before the scene would recover from one.
        let grow = |start, stop, every| DensifyPatch {
            start: Some(start),
            stop: Some(stop),
            every: Some(every),
            reset_every: Some(0),
            ..DensifyPatch::default()
        };
        match self {
            Self::Micro => ConfigPatch {
                initial_gaussians: Some(3000),
                max_gaussians: Some(5000),
                data: DataPatch {
                    max_train_views: Some(12),
                    max_eval_views: Some(3),
                    ..DataPatch::default()
                },
                ..own_schedule(25, grow(20, 90, 25), 50)
            },
            Self::M8Smoke => own_schedule(15, fixed, 0),
            Self::M8 => own_schedule(125, fixed, 250),
            Self::M9 => own_schedule(250, grow(100, 750, 50), 250),
            _ => ConfigPatch::default(),
        }
    }

    /// Returns the configuration of this preset.
    pub fn config(self) -> TrainConfig {
        self.config_for(self.steps())
    }
}

dapple_base::choice_setting!(Preset, hidden: Preset::is_small);

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| {
                Error::input(format!("there is no preset named \"{name}\"")).hint(format!(
                    "choose one of {}",
                    Self::ALL.map(Self::name).join(", ")
                ))
            })
    }
}
