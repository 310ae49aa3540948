//! Reports of an engine about finished work.

use crate::{PARAM_GROUPS, Stage};
use dapple_scene::Splats;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Report of finished work, in the order in which the work was enqueued.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Report {
    /// A training step.
    Step(StepReport),
    /// A densification round.
    Densify(DensifyReport),
}

/// Counts of one rendered view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCounts {
    /// Gaussians held.
    pub gaussians: u64,
    /// Gaussians that touch at least one tile.
    pub visible: u64,
    /// Instances: pairs of a Gaussian and a tile.
    pub instances: u64,
    /// Tiles of the image.
    pub tiles: u64,
    /// Most instances in one tile.
    pub max_instances_per_tile: u64,
    /// Instances beyond `max_gaussians_per_tile`, which are not blended.
    pub cut_instances: u64,
    /// Largest transmittance, 0..1, of a pixel that ended at this limit: the visible share of the
    /// skipped instances.
    pub lost_transmittance: f32,
}

/// Time of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
}

/// Report of a training step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// Number of the step in the settings.
    pub step: u32,
    /// `(1 - w) L1 + w (1 - SSIM)`.
    pub loss: f32,
    /// Counts of the render.
    pub counts: StepCounts,
    /// Time of each stage.
    pub stages: Vec<StageTime>,
    /// Gaussians with a non-finite parameter after the step. Checked if the step's number is a multiple
    /// of [`crate::constants::FINITE_EVERY`]; `None` if there are none.
    pub not_finite: Option<NonFiniteReport>,
}

/// Gaussians with a parameter that is NaN or infinite. Renders skip these Gaussians and no step moves
/// them, so the loss does not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonFiniteReport {
    /// Number of these Gaussians, not 0.
    pub gaussians: u64,
    /// Bit set of the affected tensors, a bit for each of [`Self::TENSORS`].
    pub tensors: u32,
}

impl NonFiniteReport {
    /// Names of a Gaussian's tensors, by bit of [`Self::tensors`].
    pub const TENSORS: [&str; PARAM_GROUPS.len()] = {
        let mut names = [""; PARAM_GROUPS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = PARAM_GROUPS[i].name;
            i += 1;
        }
        names
    };

    /// Creates a report; `None` for 0 Gaussians.
    pub fn new(gaussians: u64, tensors: u32) -> Option<Self> {
        (gaussians > 0).then_some(Self { gaussians, tensors })
    }

    /// Checks splats on the host.
    pub fn find_in(splats: &Splats) -> Option<Self> {
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

    /// Returns the names of the affected tensors.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = Self::TENSORS.into_iter().enumerate();
        bits.filter(move |(bit, _)| self.tensors >> bit & 1 == 1)
            .map(|(_, name)| name)
    }
}

/// Report of a densification round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DensifyReport {
    /// Number of the step in the plan.
    pub step: u32,
    /// Gaussians duplicated.
    pub cloned: u64,
    /// Gaussians replaced by two.
    pub split: u64,
    /// Gaussians removed.
    pub pruned: u64,
    /// Gaussians that should grow but would exceed the Gaussian cap.
    pub refused: u64,
    /// Dead Gaussians that became copies of live Gaussians.
    #[serde(default)]
    pub relocated: u64,
    /// New copies of live Gaussians.
    #[serde(default)]
    pub added: u64,
    /// Gaussians after the round.
    pub total: u64,
}
