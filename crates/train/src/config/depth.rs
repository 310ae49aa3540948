//! Where known depths come from.

use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where the depths come from that a run is supervised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DepthSource {
    /// Nowhere: photos alone.
    #[default]
    None,
    /// The capture's sparse points, in the photos that found them.
    Points,
    /// Depth images.
    Images,
}

impl DepthSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Points, Self::Images];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Points => "points",
            Self::Images => "images",
        }
    }

    /// One line for a help page.
    pub const fn about(self) -> &'static str {
        match self {
            Self::None => "photos alone",
            Self::Points => "sparse points, in the photos that found them (COLMAP)",
            Self::Images => "depth images: measured, or estimated from each photo",
        }
    }
}

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
