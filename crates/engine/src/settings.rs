//! Settings of renders, steps and densification rounds: numbers without schedules.

use crate::constants::FINITE_EVERY;
use crate::features::StepFeatures;
use crate::{Batch, DensityFocus, LossWeights};
use serde::{Deserialize, Serialize};

/// Settings of a render.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RenderSettings {
    /// Colour behind everything, 0..1.
    pub background: [f32; 3],
    /// Degree of spherical harmonics to evaluate; at most that of the splats.
    pub sh_degree: u8,
    /// Per-tile limit: at most this many Gaussians are blended in a tile, nearest first; 0 = all.
    pub max_gaussians_per_tile: u32,
    /// Gaussians whose centre is nearer than this are culled, world units along +z.
    pub near: f32,
    /// True if a render also returns depths: [`crate::Rendered::depth`]. Steps ignore this field.
    #[serde(default)]
    pub depth: bool,
    /// True if a render also returns its surface: [`crate::Rendered::surface`]. Steps ignore this field.
    #[serde(default)]
    pub surface: bool,
    /// True to filter detail that a pixel cannot resolve, instead of making it brighter (Mip-Splatting). The
    /// render dilates by [`crate::constants::MIP_DILATION`] and lowers opacities by as much as the dilation
    /// enlarges ellipses. 3D filters apply if a step has set them. See [`crate::filter_3d`].
    pub antialias: bool,
    /// Added to the usual dilation, pixels squared; negative, but above minus the usual one, for less. See
    /// [`Self::dilation`]. Training leaves it at 0.
    #[serde(default)]
    pub extra_dilation: f32,
}

impl RenderSettings {
    /// Returns the value that is added to the diagonal of projected covariances, pixels squared.
    pub fn dilation(&self) -> f32 {
        let usual = match self.antialias {
            true => crate::constants::MIP_DILATION,
            false => crate::constants::DILATION,
        };
        usual + self.extra_dilation
    }
}

impl Default for RenderSettings {
    fn default() -> Self {
        Self {
            background: [0.0; 3],
            sh_degree: dapple_scene::MAX_SH_DEGREE,
            max_gaussians_per_tile: 0,
            near: crate::constants::NEAR,
            depth: false,
            surface: false,
            antialias: false,
            extra_dilation: 0.0,
        }
    }
}

/// Step sizes of Adam, one per parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LearningRates {
    /// Step size of centres, world units.
    pub means: f32,
    /// Step size of scales, natural logarithm of world units.
    pub scales: f32,
    /// Step size of quaternion components.
    pub quats: f32,
    /// Step size of opacity logits.
    pub opacities: f32,
    /// Step size of SH coefficient 0.
    pub sh0: f32,
    /// Step size of SH coefficients 1 and above.
    pub sh_rest: f32,
}

impl LearningRates {
    /// Zero for all parameters.
    pub const NONE: Self = Self {
        means: 0.0,
        scales: 0.0,
        quats: 0.0,
        opacities: 0.0,
        sh0: 0.0,
        sh_rest: 0.0,
    };

    /// Returns step sizes that `of` makes of these.
    #[must_use]
    pub fn map(self, of: impl Fn(f32) -> f32) -> Self {
        Self {
            means: of(self.means),
            scales: of(self.scales),
            quats: of(self.quats),
            opacities: of(self.opacities),
            sh0: of(self.sh0),
            sh_rest: of(self.sh_rest),
        }
    }
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
        // Value of the 3DGS paper's trainer: gradients are means over a million pixels, and the usual 1e-8 would
        // exceed them.
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-15,
        }
    }
}

/// Settings of one training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepSettings {
    /// Number of the step, from 1; Adam's bias correction uses it.
    pub step: u32,
    /// Place of the step in its batch: the last step of a batch moves the Gaussians.
    #[serde(default)]
    pub batch: Batch,
    /// Settings of the render.
    pub render: RenderSettings,
    /// Step sizes.
    pub learning_rates: LearningRates,
    /// Constants of Adam.
    pub adam: Adam,
    /// Weights of the loss by term. The depth term applies if the view has samples of known depth.
    pub losses: LossWeights,
    /// Seed of the run; keys the noise and the dropout.
    #[serde(default)]
    pub seed: u64,
    /// True to add this step's screen-space gradients to the density statistics.
    pub accumulate_density: bool,
    /// True to add up absolute values in the density statistics: see [`Extras::absolute_density`].
    #[serde(default)]
    pub absolute_density: bool,
    /// Numbers of the features.
    #[serde(default)]
    pub features: StepFeatures,
}

impl StepSettings {
    /// Creates settings of step `step` that change no parameter; the caller overrides fields.
    ///
    /// ```
    /// use dapple_engine::{LossTerm, LossWeights, RenderSettings, StepSettings};
    /// let settings = StepSettings {
    ///     losses: LossWeights::default().with(LossTerm::Ssim, 0.2),
    ///     ..StepSettings::new(1, RenderSettings::default())
    /// };
    /// assert_eq!(settings.learning_rates.means, 0.0);
    /// ```
    pub fn new(step: u32, render: RenderSettings) -> Self {
        Self {
            step,
            batch: Batch::ONE,
            render,
            learning_rates: LearningRates::NONE,
            adam: Adam::default(),
            losses: LossWeights::default(),
            seed: 0,
            accumulate_density: false,
            absolute_density: false,
            features: StepFeatures::default(),
        }
    }

    /// Returns true if the step searches for non-finite parameters: [`crate::StepReport::not_finite`].
    pub fn checks_numbers(&self) -> bool {
        self.step.is_multiple_of(FINITE_EVERY)
    }

    /// Returns true if `update` has additions to the image's gradient: terms of the loss over Gaussians, or noise.
    pub fn adds_to_update(&self) -> bool {
        self.losses.regularise() || self.features.noise.scale != 0.0
    }
}

/// Additions of a density strategy to a step; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Extras {
    /// Scale of the random motion of centres: [`noise::Step::scale`](crate::features::noise::Step::scale).
    pub noise: f32,
    /// True to add up absolute values of each pixel's contribution in the density statistics, per axis, instead of
    /// the values. Gradients of pixels that pull a large Gaussian in opposite directions then do not cancel
    /// (AbsGS, Ye et al. 2024, arXiv:2404.10484). Costs two numbers per instance.
    pub absolute_density: bool,
}

/// Plan of one densification round: thresholds and caps, without values read from the device.
///
/// A round clones and splits by the mean screen-space gradient since the last round, prunes, and resets opacities
/// if requested. It then clears the statistics if they were used to grow. With `relocate`, the round relocates
/// instead: see [`Relocation`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DensifyPlan {
    /// Number of the step before this round; keys the random numbers of splits.
    pub step: u32,
    /// Seed of the run; keys the random numbers of splits.
    pub seed: u64,
    /// Threshold of the mean screen-space gradient above which Gaussians grow (normalised pixels: gradient in
    /// pixels times half the image size). `None` grows nothing.
    pub grow_gradient: Option<f32>,
    /// Largest axis, world units, of growing Gaussians that are cloned; larger Gaussians are split.
    pub split_scale: f32,
    /// Least opacity: less opaque Gaussians are removed. `None` removes none.
    pub prune_opacity: Option<f32>,
    /// Maximum of the largest axis, world units: larger Gaussians are removed. `None` removes none.
    pub prune_scale: Option<f32>,
    /// Gaussian cap. The largest gradients grow first.
    pub max_gaussians: usize,
    /// Maximum growth, as a share of the Gaussians still missing to `max_gaussians`, 0..=1.
    pub room_share: f32,
    /// Maximum opacity after the round; moments of opacities are cleared. `None` resets nothing.
    pub reset_opacity: Option<f32>,
    /// Settings to move and add Gaussians instead, up to `max_gaussians`.
    pub relocate: Option<Relocation>,
    /// Region outside of which Gaussians grow and are copied less. `None` = the whole scene counts alike.
    pub focus: Option<DensityFocus>,
}

impl DensifyPlan {
    /// A round that changes nothing: plans state what differs.
    pub const NOTHING: Self = Self {
        step: 0,
        seed: 0,
        grow_gradient: None,
        split_scale: 0.0,
        prune_opacity: None,
        prune_scale: None,
        max_gaussians: usize::MAX,
        room_share: 1.0,
        reset_opacity: None,
        relocate: None,
        focus: None,
    };

    /// Returns [`Self::room_share`] as a fraction of 2^32, and `u32::MAX` for 1.
    pub fn room_share_bits(&self) -> u32 {
        // The cast saturates.
        (f64::from(self.room_share) * f64::from(u32::MAX)) as u32
    }

    /// Returns by how many Gaussians `count` of them may grow; every engine uses this value.
    pub fn free_capacity(&self, count: usize) -> usize {
        let free = self.max_gaussians.saturating_sub(count);
        let least = u32::try_from(free).unwrap_or(u32::MAX);
        match self.room_share_bits() {
            u32::MAX => free,
            share => crate::relocation::high_product(share, least) as usize,
        }
    }
}

/// Relocation round: dead Gaussians become copies of live Gaussians, and new copies are added. See
/// `dapple_reference::relocate`. Moments of all drawn Gaussians and of their copies restart at zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Relocation {
    /// Opacity at or below which Gaussians are dead; non-finite Gaussians are dead too. Copies have at least this
    /// opacity.
    pub dead_opacity: f32,
    /// Number of Gaussians to add, in thousandths of the current number.
    pub add_permille: u32,
}

impl Relocation {
    /// Returns the logit of [`Self::dead_opacity`], which engines compare with.
    pub fn dead_logit(&self) -> f32 {
        let opacity = f64::from(self.dead_opacity);
        (opacity / (1.0 - opacity)).ln() as f32
    }

    /// Returns the number of Gaussians that `count` of them add, up to `max_gaussians`.
    pub fn added(&self, count: usize, max_gaussians: usize) -> usize {
        let wanted = count as u64 * u64::from(self.add_permille) / 1000;
        max_gaussians
            .saturating_sub(count)
            .min(usize::try_from(wanted).unwrap_or(usize::MAX))
    }
}
