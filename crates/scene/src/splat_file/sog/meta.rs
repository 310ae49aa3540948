//! `meta.json`.

use super::DAMAGED;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Meta {
    pub version: u32,
    #[serde(default)]
    pub asset: Asset,
    pub count: usize,
    /// `antialiased` or `2dgs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// As the description has it; the writer never did.
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

impl Meta {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        /// What tells a version that is not known from what is no SOG file.
        #[derive(Deserialize)]
        struct Version {
            version: Option<u32>,
            means: Option<serde_json::Value>,
        }
        let failed = |e: serde_json::Error| {
            let place = format!("{}, line {} column {}", super::META, e.line(), e.column());
            Error::input(format!("this is no meta.json of a SOG file: {e}"))
                .at(place)
                .hint(DAMAGED)
        };
        let version: Version = serde_json::from_slice(bytes).map_err(failed)?;
        match (version.version, &version.means) {
            (Some(2), _) | (None, None) => {}
            (found, _) => {
                let what = match found {
                    Some(found) => format!("this is a SOG file of version {found}"),
                    None => "this is a SOG file from before version 2".to_owned(),
                };
                return Err(Error::unsupported(what)
                    .at(super::META)
                    .hint("Dapple reads version 2; `splat-transform in.sog out.sog` brings older files up to it"));
            }
        }
        serde_json::from_slice(bytes).map_err(failed)
    }

    pub(super) fn is_antialiased(&self) -> bool {
        self.antialias == Some(true) || self.model.as_deref() == Some("antialiased")
    }
}
