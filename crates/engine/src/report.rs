//! What an engine says about finished work.

use crate::Stage;
use serde::{Deserialize, Serialize};

/// Finished work, in the order it was enqueued.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Report {
    /// A training step.
    Step(StepReport),
    /// A round of density control.
    Densify(DensifyReport),
}

/// Counts of one rendered view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCounts {
    /// Gaussians held.
    pub gaussians: u64,
    /// Gaussians that touch at least one tile.
    pub visible: u64,
    /// (Gaussian, tile) pairs.
    pub instances: u64,
    /// Tiles of the image.
    pub tiles: u64,
    /// Most instances in one tile.
    pub max_instances_per_tile: u64,
    /// Instances left out by `max_gaussians_per_tile`.
    pub cut_instances: u64,
    /// The largest transmittance at which a pixel ended because of that, 0..1: how much of what lay
    /// behind could have been seen.
    pub lost_transmittance: f32,
}

/// Time spent in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Which stage.
    pub stage: Stage,
    /// How long, nanoseconds.
    pub duration_ns: u64,
}

/// A finished training step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// As given in the settings.
    pub step: u32,
    /// `(1 - w) L1 + w (1 - SSIM)`.
    pub loss: f32,
    /// What was rendered.
    pub counts: StepCounts,
    /// Time of each stage.
    pub stages: Vec<StageTime>,
}

/// A finished round of density control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DensifyReport {
    /// As given in the plan.
    pub step: u32,
    /// Gaussians duplicated.
    pub cloned: u64,
    /// Gaussians replaced by two.
    pub split: u64,
    /// Gaussians removed.
    pub pruned: u64,
    /// Gaussians that wanted to grow but found the budget spent.
    pub refused: u64,
    /// Dead Gaussians that became copies of living ones.
    #[serde(default)]
    pub relocated: u64,
    /// Copies of living ones that are new.
    #[serde(default)]
    pub added: u64,
    /// Gaussians afterwards.
    pub total: u64,
}
