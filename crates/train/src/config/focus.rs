//! Region of interest of a run.

use super::FocusConfig;
use dapple_base::settings::{Kind, Setting};
use dapple_scene::edit::Region;
use dapple_scene::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

const WANTED: &str =
    "none, auto, sphere:X,Y,Z,RADIUS, or box:X,Y,Z,WIDTH,HEIGHT,DEPTH and degrees about x, y, z";

/// Region that a run spends its Gaussians on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum FocusRegion {
    /// The whole scene.
    #[default]
    None,
    /// The region that the cameras look at. A run replaces it by a [`Self::Region`] when it starts.
    Auto,
    /// A sphere or a box, in the coordinates of the capture.
    Region(Region),
}

impl FocusRegion {
    /// Returns true if the run has a region of interest.
    pub fn is_on(self) -> bool {
        self != Self::None
    }

    /// Returns the region; `None` without one, or if the cameras have not set it yet.
    pub fn region(self) -> Option<Region> {
        match self {
            Self::Region(region) => Some(region),
            Self::None | Self::Auto => None,
        }
    }
}

impl FocusConfig {
    /// Returns true if all settings have their defaults. Files then omit the table, so that runs without a region have
    /// the files of earlier versions.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the outline of the region as polylines; empty without a region.
    pub fn outline(&self) -> Vec<Vec<[f64; 3]>> {
        let region = self.region.region();
        region.map_or_else(Vec::new, |region| region.outline())
    }
}

impl fmt::Display for FocusRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Auto => f.write_str("auto"),
            Self::Region(region) => write!(f, "{region}"),
        }
    }
}

impl FromStr for FocusRegion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            _ => text
                .parse()
                .map(Self::Region)
                .map_err(|e: Error| e.hint(format!("choose {WANTED}"))),
        }
    }
}

impl Setting for FocusRegion {
    const KIND: Kind = Kind::Text;

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: Error| format!("{}; choose {WANTED}", error.what()))
    }
}

impl Serialize for FocusRegion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FocusRegion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error: Error| de::Error::custom(format!("{}; choose {WANTED}", error.what())))
    }
}
