//! Names of the stages of a training step.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Stage of a training step. Each stage has the same name in three places: a function of
/// `reference`, a file of the CPU engine, a shader of the GPU engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Cull, project, compute colour from SH, count touched tiles.
    Project,
    /// Sort visible Gaussians by depth.
    Order,
    /// Write one instance per (Gaussian, tile), in depth order.
    Emit,
    /// Sort instances by tile, stable.
    Sort,
    /// Find first and last instance of each tile.
    Ranges,
    /// Blend front to back per tile.
    Blend,
    /// Apply the photo's grid, or another model of its colours, to the render, if the run learns one.
    /// After `loss`: its backward pass and its step.
    Appearance,
    /// Compute L1 + SSIM and their gradient.
    Loss,
    /// Compute the gradient of each instance, in its own gradient slot.
    BlendBackward,
    /// Sum gradient slots, project backward, SH backward, Adam, density statistics.
    Update,
    /// Clone, split, prune, reset.
    Densify,
}

impl Stage {
    /// All stages in the order of execution.
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

    /// Returns the name in files, reports and JSON.
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
