//! What an engine says about finished work.

use crate::{PARAM_GROUPS, Stage};
use dapple_scene::Splats;
use rayon::prelude::*;
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
    /// Gaussians that are not finite after the step; looked for where its number is a multiple of
    /// [`crate::constants::FINITE_EVERY`], and `None` where there are none.
    pub not_finite: Option<NotFinite>,
}

/// Gaussians of which a parameter is NaN or infinite. Renders leave them out and nothing moves them any
/// more, so that the loss does not tell of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite {
    /// How many, not 0.
    pub gaussians: u64,
    /// A bit for each of [`Self::TENSORS`].
    pub tensors: u32,
}

impl NotFinite {
    /// What a Gaussian consists of, by bit of [`Self::tensors`].
    pub const TENSORS: [&str; PARAM_GROUPS.len()] = {
        let mut names = [""; PARAM_GROUPS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = PARAM_GROUPS[i].name;
            i += 1;
        }
        names
    };

    /// `None` for no Gaussian.
    pub fn new(gaussians: u64, tensors: u32) -> Option<Self> {
        (gaussians > 0).then_some(Self { gaussians, tensors })
    }

    /// Those of splats on the host.
    pub fn of(splats: &Splats) -> Option<Self> {
        let widths = PARAM_GROUPS.map(|group| group.width(splats.sh_degree));
        let tensors = PARAM_GROUPS.map(|group| group.values(splats));
        let bits = |i: usize| {
            let each = tensors.iter().zip(widths);
            let broken = each.map(|(values, width)| {
                let own = &values[i * width..(i + 1) * width];
                !own.iter().all(|v| v.is_finite())
            });
            broken.enumerate().fold(0, |bits, (bit, is_broken)| {
                bits | u32::from(is_broken) << bit
            })
        };
        let (gaussians, tensors) = (0..splats.len())
            .into_par_iter()
            .map(bits)
            .filter(|&bits| bits != 0)
            .map(|bits| (1, bits))
            .reduce(|| (0, 0), |(n, all), (m, bits)| (n + m, all | bits));
        Self::new(gaussians, tensors)
    }

    /// The names of the tensors.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = Self::TENSORS.into_iter().enumerate();
        bits.filter(move |(bit, _)| self.tensors >> bit & 1 == 1)
            .map(|(_, name)| name)
    }
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
