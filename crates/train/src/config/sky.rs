//! Whether a run learns the sky apart.

use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Whether a run learns the sky apart from the scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkyMode {
    /// If the capture is outdoors and enough photos show a sky.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl SkyMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::On, Self::Off];

    /// Returns the name for the command line and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Returns one line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Auto => "a sky if the capture is outdoors and enough photos show one",
            Self::On => "a sky, also if few photos show one",
            Self::Off => "no sky: the same Gaussians for near and far",
        }
    }
}

dapple_base::choice_setting!(SkyMode);

impl fmt::Display for SkyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SkyMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| {
            Error::input(format!("\"{name}\" is no mode of the sky")).hint(format!(
                "choose one of {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}
