//! What training tells an engine: plain numbers, no schedules.

use serde::{Deserialize, Serialize};

/// How to render.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RenderSettings {
    /// Colour behind everything, 0..1.
    pub background: [f32; 3],
    /// Degree of spherical harmonics to evaluate; at most what the splats carry.
    pub sh_degree: u8,
    /// At most this many Gaussians are blended in a tile, nearest first; 0 = all.
    pub max_gaussians_per_tile: u32,
    /// Gaussians whose centre is nearer than this are culled, world units along +z.
    pub near: f32,
}

impl Default for RenderSettings {
    fn default() -> Self {
        Self {
            background: [0.0; 3],
            sh_degree: dapple_scene::MAX_SH_DEGREE,
            max_gaussians_per_tile: 0,
            near: crate::constants::NEAR,
        }
    }
}

/// Step sizes of Adam, one per parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LearningRates {
    /// World units.
    pub means: f32,
    /// Natural logarithm of world units.
    pub scales: f32,
    /// Quaternion components.
    pub quats: f32,
    /// Logits.
    pub opacities: f32,
    /// SH coefficient 0.
    pub sh0: f32,
    /// SH coefficients 1...
    pub sh_rest: f32,
}

/// Constants of Adam (Kingma & Ba 2015).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
}

impl Default for Adam {
    fn default() -> Self {
        // The 3DGS paper's trainer: gradients are means over a million pixels, so the usual 1e-8
        // would swamp them.
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-15,
        }
    }
}

/// One training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepSettings {
    /// Counts from 1; Adam's bias correction uses it.
    pub step: u32,
    /// How to render the view.
    pub render: RenderSettings,
    /// Step sizes.
    pub learning_rates: LearningRates,
    /// Constants of Adam.
    pub adam: Adam,
    /// Weight of `1 - SSIM` in the loss; the rest is L1. The paper: 0.2.
    pub ssim_weight: f32,
    /// Whether to add this step's screen-space gradients to the density statistics.
    pub accumulate_density: bool,
}

/// One round of density control: thresholds and budgets in, nothing read back.
///
/// Order of work: clone and split by the mean screen-space gradient since the last round, prune,
/// reset opacities if asked, clear the statistics if they were used to grow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DensifyPlan {
    /// The step after which this runs; keys the random numbers of splits.
    pub step: u32,
    /// Seed of the run; keys the random numbers of splits.
    pub seed: u64,
    /// Grow where the mean screen-space gradient exceeds this (normalised pixels: gradient in
    /// pixels times half the image size). `None` grows nothing.
    pub grow_gradient: Option<f32>,
    /// Growing Gaussians at most this large (largest axis, world units) are cloned, others split.
    pub split_scale: f32,
    /// Remove Gaussians less opaque than this. `None` removes none.
    pub prune_opacity: Option<f32>,
    /// Remove Gaussians larger than this (largest axis, world units). `None` removes none.
    pub prune_scale: Option<f32>,
    /// Never hold more Gaussians than this; the largest gradients grow first.
    pub max_gaussians: usize,
    /// Clamp opacities to at most this and clear their moments.
    pub reset_opacity: Option<f32>,
}
