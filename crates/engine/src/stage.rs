//! The stages of a training step, by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A stage of a training step. One stage, one name, three places: a function of
/// `reference`, a file of the CPU engine, a shader of the GPU engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Cull, project, colour from SH, count touched tiles.
    Project,
    /// Visible Gaussians by depth.
    Order,
    /// One instance per (Gaussian, tile), in depth order.
    Emit,
    /// Instances by tile, stable.
    Sort,
    /// First and last instance of each tile.
    Ranges,
    /// Front to back per tile.
    Blend,
    /// The render through the photo's grid of colour maps, where a run learns them; after `loss` the
    /// way back, and their step.
    Appearance,
    /// L1 + SSIM and their gradient.
    Loss,
    /// Gradient of each instance into its own slot.
    BlendBackward,
    /// Sum slots, project backward, SH backward, Adam, density statistics.
    Update,
    /// Clone, split, prune, reset.
    Densify,
}

impl Stage {
    /// All stages in the order they run.
    pub const ALL: [Self; 11] = [
        Self::Project,
        Self::Order,
        Self::Emit,
        Self::Sort,
        Self::Ranges,
        Self::Blend,
        Self::Appearance,
        Self::Loss,
        Self::BlendBackward,
        Self::Update,
        Self::Densify,
    ];

    /// The name used in files, reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Order => "order",
            Self::Emit => "emit",
            Self::Sort => "sort",
            Self::Ranges => "ranges",
            Self::Blend => "blend",
            Self::Appearance => "appearance",
            Self::Loss => "loss",
            Self::BlendBackward => "blend_backward",
            Self::Update => "update",
            Self::Densify => "densify",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
