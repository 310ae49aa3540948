//! What training tells an engine: plain numbers, no schedules.

use crate::{AppearanceSettings, LookSettings, LossWeights, PoseRates};
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
    /// Whether a render also gives depths: [`crate::Rendered::depth`]. Steps do not look at it.
    #[serde(default)]
    pub depth: bool,
    /// Filters what a pixel cannot resolve instead of making it brighter (Mip-Splatting): dilates by
    /// [`crate::constants::MIP_DILATION`] and lowers opacities by as much as that makes ellipses
    /// larger; 3D filters count where a step has set them. See [`crate::smoothing`].
    pub antialias: bool,
}

impl RenderSettings {
    /// What is added to the diagonal of projected covariances, pixels squared.
    pub fn dilation(&self) -> f32 {
        if self.antialias {
            crate::constants::MIP_DILATION
        } else {
            crate::constants::DILATION
        }
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
            antialias: false,
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

impl LearningRates {
    /// Nothing moves.
    pub const NONE: Self = Self {
        means: 0.0,
        scales: 0.0,
        quats: 0.0,
        opacities: 0.0,
        sh0: 0.0,
        sh_rest: 0.0,
    };
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
    /// Weights of the loss by term. The depth term counts where the view has samples of known depth.
    pub losses: LossWeights,
    /// Where the crop of [`LossTerm::Perceptual`](crate::LossTerm::Perceptual) lies: fractions of 2^32, see
    /// [`crate::crops`].
    #[serde(default)]
    pub crop: [u32; 2],
    /// Whether to add this step's screen-space gradients to the density statistics.
    pub accumulate_density: bool,
    /// Whether the step begins by setting each Gaussian's 3D filter by the views to train on. Only with
    /// [`RenderSettings::antialias`]; see [`crate::smoothing`].
    pub refresh_smoothing: bool,
    /// What a density strategy adds to `update`.
    pub extras: Extras,
    /// The part of the Gaussians that the step leaves out at random, 0 to below 1, keyed by [`Extras::seed`]; 0 by
    /// default. See [`crate::Dropout`].
    #[serde(default)]
    pub dropout: f32,
    /// Step sizes of the view's pose; off by default.
    pub pose_rates: PoseRates,
    /// Whether the view's appearance is learnt, and how; without it the loss compares the photo with the
    /// render itself. The loss that is reported is that of the image alone.
    pub appearance: Option<AppearanceSettings>,
    /// Whether the view is rendered through its look, and how that and the network behind it are learnt: see
    /// [`mod@crate::look`]. The engine must hold a look for every view.
    #[serde(default)]
    pub look: Option<LookSettings>,
}

impl StepSettings {
    /// Step `step`, rendered so, that asks for nothing: what a step is to do is named over it.
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
            render,
            learning_rates: LearningRates::NONE,
            adam: Adam::default(),
            losses: LossWeights::default(),
            crop: [0; 2],
            accumulate_density: false,
            refresh_smoothing: false,
            extras: Extras::default(),
            dropout: 0.0,
            pose_rates: PoseRates::default(),
            appearance: None,
            look: None,
        }
    }

    /// Whether `update` has more to do than the image asks for: terms of the loss that look at Gaussians, or
    /// noise.
    pub fn adds_to_update(&self) -> bool {
        self.losses.regularise() || self.extras.noise != 0.0
    }
}

/// What density strategies add to `update`; nothing by default. Formula of the noise:
/// `dapple_reference::perturbation`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Extras {
    /// Seed of the run; keys the noise, and what a step leaves out.
    pub seed: u64,
    /// Moves centres at random by this times the covariance, world units; less the more opaque a
    /// Gaussian is. After Adam's step, with what that left.
    pub noise: f32,
    /// The density statistics add up the absolute values of what each pixel gives, per axis, instead
    /// of the values: gradients of pixels that pull a large Gaussian in opposite directions do not
    /// cancel (AbsGS, Ye et al. 2024, arXiv:2404.10484). Costs two numbers an instance.
    pub absolute_density: bool,
}

/// One round of density control: thresholds and budgets in, nothing read back.
///
/// Order of work: clone and split by the mean screen-space gradient since the last round, prune,
/// reset opacities if asked, clear the statistics if they were used to grow. With `relocate`, none
/// of that is done: see [`Relocation`].
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
    /// Grow by at most this share of the room that is left below `max_gaussians`, 0..=1.
    pub room_share: f32,
    /// Clamp opacities to at most this and clear their moments.
    pub reset_opacity: Option<f32>,
    /// Move and add Gaussians instead, up to `max_gaussians`.
    pub relocate: Option<Relocation>,
}

impl DensifyPlan {
    /// [`Self::room_share`] as a fraction of 2^32, and `u32::MAX` for all.
    pub fn room_share_bits(&self) -> u32 {
        // The cast saturates.
        (f64::from(self.room_share) * f64::from(u32::MAX)) as u32
    }

    /// By how many Gaussians `count` of them may grow: what every engine takes.
    pub fn room(&self, count: usize) -> usize {
        let room = self.max_gaussians.saturating_sub(count);
        let least = u32::try_from(room).unwrap_or(u32::MAX);
        match self.room_share_bits() {
            u32::MAX => room,
            share => crate::relocation::high_product(share, least) as usize,
        }
    }
}

/// A round of relocation: dead Gaussians become copies of living ones, and so do new ones. See
/// `dapple_reference::relocate`. Moments of all that are drawn, and of their copies, start anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Relocation {
    /// Gaussians at most this opaque are dead, and so are those that are not finite. No copy is made
    /// less opaque than this.
    pub dead_opacity: f32,
    /// How many to add, in thousandths of those there are.
    pub add_permille: u32,
}

impl Relocation {
    /// The logit of [`Self::dead_opacity`], which is what engines compare with.
    pub fn dead_logit(&self) -> f32 {
        let opacity = f64::from(self.dead_opacity);
        (opacity / (1.0 - opacity)).ln() as f32
    }

    /// How many Gaussians `count` of them add, up to `max_gaussians`.
    pub fn added(&self, count: usize, max_gaussians: usize) -> usize {
        let wanted = count as u64 * u64::from(self.add_permille) / 1000;
        max_gaussians
            .saturating_sub(count)
            .min(usize::try_from(wanted).unwrap_or(usize::MAX))
    }
}
