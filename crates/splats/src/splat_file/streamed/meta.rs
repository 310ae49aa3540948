//! `lod-meta.json` of streamed SOG.

use super::META;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const DAMAGED: &str = "the file is damaged or cut: copy or export it again";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    /// Version 1; files from before versions have neither a version nor counts.
    #[serde(default)]
    pub version: Option<u32>,
    #[serde(default)]
    pub asset: Asset,
    /// Number of Gaussians of all levels.
    #[serde(default)]
    pub count: u64,
    /// Number of Gaussians of each level.
    #[serde(default)]
    pub counts: Vec<u64>,
    pub lod_levels: u32,
    /// A SOG folder's `meta.json` of the surroundings of the scene: sky, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    pub filenames: Vec<String>,
    pub tree: Node,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Asset {
    #[serde(default)]
    pub generator: String,
}

/// A part of space: two halves of it, or runs of Gaussians by level.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Node {
    pub bound: Bound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Node>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lods: Option<BTreeMap<u32, Run>>,
}

/// A box around all of a node's ellipsoids at one standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Bound {
    pub min: [f32; 3],
    pub max: [f32; 3],
}

/// Consecutive Gaussians in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Run {
    /// Index into [`Meta::filenames`].
    pub file: usize,
    pub offset: usize,
    pub count: usize,
}

impl Meta {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        /// Version key. It identifies an unknown version.
        #[derive(Deserialize)]
        struct Version {
            version: Option<u32>,
        }
        let failed = |e: serde_json::Error| {
            let place = format!("{META}, line {} column {}", e.line(), e.column());
            Error::input(format!("this is no lod-meta.json of streamed SOG: {e}"))
                .at(place)
                .hint(DAMAGED)
        };
        let version: Version = serde_json::from_slice(bytes).map_err(failed)?;
        if let Some(version) = version.version.filter(|&v| v != 1) {
            return Err(
                Error::unsupported(format!("this is streamed SOG of version {version}"))
                    .at(META)
                    .hint("Dapple reads version 1; a newer Dapple may read it"),
            );
        }
        serde_json::from_slice(bytes).map_err(failed)
    }
}

/// Builds an error for invalid content of the file.
pub(super) fn damaged(what: String) -> Error {
    Error::input(what).at(META).hint(DAMAGED)
}
