//! `meta.json` of SOG.

use super::DAMAGED;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Meta {
    pub version: u32,
    #[serde(default)]
    pub asset: Asset,
    pub count: usize,
    /// `antialiased` or `2dgs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Key of the format's description; the writer never used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub antialias: Option<bool>,
    pub means: Means,
    pub scales: Coded,
    pub quats: Files,
    pub sh0: Coded,
    #[serde(default, rename = "shN", skip_serializing_if = "Option::is_none")]
    pub sh_rest: Option<Rest>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Asset {
    #[serde(default)]
    pub generator: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub extras: Value,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Means {
    pub mins: [f32; 3],
    pub maxs: [f32; 3],
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Files {
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Coded {
    pub codebook: Vec<f32>,
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Rest {
    pub count: usize,
    pub bands: u8,
    pub codebook: Vec<f32>,
    pub files: Vec<String>,
}

/// Metadata of the first writer: limits instead of codebooks, the opacity as a logit between limits.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct First {
    pub means: FirstMeans,
    pub scales: Limits,
    pub quats: Files,
    /// Limits of red, green, blue and opacity.
    pub sh0: Limits,
    #[serde(default, rename = "shN")]
    pub sh_rest: Option<FirstRest>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct FirstMeans {
    /// Number of Gaussians, and 3.
    pub shape: Vec<usize>,
    pub mins: [f32; 3],
    pub maxs: [f32; 3],
    pub files: Vec<String>,
}

/// Linear between limits, channel by channel.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Limits {
    pub mins: Vec<f32>,
    pub maxs: Vec<f32>,
    pub files: Vec<String>,
}

/// Linear between two limits for all coefficients.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FirstRest {
    pub mins: One,
    pub maxs: One,
    /// Bits of a value; 8 if absent.
    #[serde(default)]
    pub quantization: Option<u32>,
    pub files: Vec<String>,
}

/// A number, or a list of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum One {
    Number(f32),
    List([f32; 1]),
}

impl One {
    pub(super) fn get(&self) -> f32 {
        match *self {
            Self::Number(value) | Self::List([value]) => value,
        }
    }
}

/// A `meta.json` of either version.
#[derive(Debug, Clone)]
pub(super) enum AnyMeta {
    First(Box<First>),
    Second(Box<Meta>),
}

impl AnyMeta {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        /// Version key. It separates an unknown version from a file that is not SOG.
        #[derive(Deserialize)]
        struct Version {
            version: Option<u32>,
            means: Option<serde_json::Value>,
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let failed = |e: serde_json::Error| {
            let place = format!("{}, line {} column {}", super::META, e.line(), e.column());
            Error::input(format!("this is no meta.json of a SOG file: {e}"))
                .at(place)
                .hint(DAMAGED)
        };
        let version: Version = serde_json::from_slice(bytes).map_err(failed)?;
        let first = |bytes| serde_json::from_slice(bytes).map(Self::First);
        let second = |bytes| serde_json::from_slice(bytes).map(Self::Second);
        match (version.version, &version.means) {
            // The first writer had no version key.
            (None | Some(1), Some(_)) => first(bytes).map_err(failed),
            (Some(2), _) | (None, None) => second(bytes).map_err(failed),
            (Some(found), _) => {
                let what = format!("this is a SOG file of version {found}");
                Err(Error::unsupported(what)
                    .at(super::META)
                    .hint("Dapple reads versions 1 and 2; a newer Dapple may read it"))
            }
        }
    }
}

impl Meta {
    pub(super) fn is_antialiased(&self) -> bool {
        self.antialias == Some(true) || self.model.as_deref() == Some("antialiased")
    }
}
