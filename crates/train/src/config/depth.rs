//! Sources of known depths.

use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Source of the depths that supervise a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DepthSource {
    /// No depths; only photos.
    #[default]
    None,
    /// The capture's sparse points, in the photos that found them.
    Points,
    /// Depth images.
    Images,
}

impl DepthSource {
    /// All sources.
    pub const ALL: [Self; 3] = [Self::None, Self::Points, Self::Images];

    /// Returns the name for the command line and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Points => "points",
            Self::Images => "images",
        }
    }

    /// Returns one line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::None => "no depths, only photos",
            Self::Points => "sparse points, in the photos that found them (COLMAP)",
            Self::Images => "depth images: measured, or estimated from each photo",
        }
    }
}

dapple_base::choice_setting!(DepthSource);

impl fmt::Display for DepthSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DepthSource {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|source| source.name() == name);
        found.ok_or_else(|| {
            Error::input(format!("depths do not come from \"{name}\"")).hint(format!(
                "choose one of {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}
