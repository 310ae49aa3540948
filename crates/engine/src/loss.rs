//! Terms of the loss, and their weights in a step. The loss is the sum of the weighted terms.
//!
//! | term | of | definition |
//! |---|---|---|
//! | `ssim` | the image | `w (1 - SSIM) + (1 - w) L1` against the photo: both share a weight of 1 |
//! | `perceptual` | the image | a loss over crops that engines do not define, such as LPIPS: see [`crate::crops`] |
//! | `depth` | depths | the relative error of expected depths where depths are known, see [`crate::depth`] |
//! | `normals` | depths | the disagreement of normals and depths, see [`crate::features::normals`] |
//! | `matching` | depths | the disagreement of two photos at the surface, see [`crate::features::normals::matching`] |
//! | `opacity` | Gaussians | the mean opacity |
//! | `scale` | Gaussians | the mean standard deviation over Gaussians and axes, world units |
//! | `flatness` | Gaussians | the mean of each Gaussian's smallest standard deviation, world units |
//!
//! Reports contain only the loss of `ssim`. A weight is a number of the step: schedules are part of training
//! ([`StepSettings::losses`]). A term of weight 0 costs nothing.
//!
//! A term has the same name everywhere. A term of the Gaussians only (a *regulariser*) consists of:
//! 1. a variant here, with its row in [`LossTerm::ALL`];
//! 2. a file of the reference in `features/regularise/oracle` with value and gradient. The tests of the reference
//!    compare them with finite differences, and the conformance suite compares engines with them, for every term in its list;
//! 3. a file or function per engine: `cpu/src/features/regularise/kernels`, `gpu/shaders/shared/extras.wgsl`;
//! 4. its weight, from a number of the configuration: a line in `train/src/features/regularise.rs`.
//!
//! [`StepSettings::losses`]: crate::StepSettings::losses

use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// Term of the loss, as the head of this file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossTerm {
    /// Structural dissimilarity to the photo; the L1 part has the weight 1 minus this weight.
    Ssim,
    /// Relative error of expected depths where depths are known.
    Depth,
    /// The mean opacity.
    Opacity,
    /// The mean standard deviation, world units.
    Scale,
    /// The mean of each Gaussian's smallest standard deviation, world units.
    Flatness,
    /// Loss over a crop, defined outside the engines.
    Perceptual,
    /// Disagreement of the normals of Gaussians and of the surface that they form.
    Normals,
    /// Disagreement of the photo and of a neighbour's, where the surface says that they show the same.
    Matching,
}

/// Input of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossOf {
    /// Rendered image: the derivative is by pixels.
    Image,
    /// Rendered depths and alpha.
    Depths,
    /// Gaussians: `update` adds the derivative to the gradient from the image, for visible and invisible Gaussians.
    Gaussians,
}

impl LossTerm {
    /// All terms.
    pub const ALL: [Self; 8] = [
        Self::Ssim,
        Self::Depth,
        Self::Opacity,
        Self::Scale,
        Self::Flatness,
        Self::Perceptual,
        Self::Normals,
        Self::Matching,
    ];

    /// Returns the name in reports and tests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ssim => "ssim",
            Self::Depth => "depth",
            Self::Opacity => "opacity",
            Self::Scale => "scale",
            Self::Flatness => "flatness",
            Self::Perceptual => "perceptual",
            Self::Normals => "normals",
            Self::Matching => "matching",
        }
    }

    /// Returns the input of the term.
    pub const fn of(self) -> LossOf {
        match self {
            Self::Ssim | Self::Perceptual => LossOf::Image,
            Self::Depth | Self::Normals | Self::Matching => LossOf::Depths,
            Self::Opacity | Self::Scale | Self::Flatness => LossOf::Gaussians,
        }
    }
}

/// Weights of a step, by term; all 0 by default.
///
/// ```
/// use dapple_engine::{LossTerm, LossWeights};
/// let weights = LossWeights::default().with(LossTerm::Ssim, 0.2);
/// assert_eq!((weights[LossTerm::Ssim], weights[LossTerm::Depth]), (0.2, 0.0));
/// assert!(!weights.regularise());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossWeights([f32; LossTerm::ALL.len()]);

impl LossWeights {
    /// Creates weights from a function of the term.
    pub fn from_fn(weight: impl FnMut(LossTerm) -> f32) -> Self {
        Self(LossTerm::ALL.map(weight))
    }

    /// Returns these weights with another weight of one term.
    #[must_use]
    pub fn with(mut self, term: LossTerm, weight: f32) -> Self {
        self[term] = weight;
        self
    }

    /// Returns true if a term of the Gaussians has a weight.
    pub fn regularise(&self) -> bool {
        let of_gaussians = |term: &&LossTerm| term.of() == LossOf::Gaussians;
        let mut terms = LossTerm::ALL.iter().filter(of_gaussians);
        terms.any(|&term| self[term] != 0.0)
    }
}

impl Index<LossTerm> for LossWeights {
    type Output = f32;

    fn index(&self, term: LossTerm) -> &f32 {
        &self.0[term as usize]
    }
}

impl IndexMut<LossTerm> for LossWeights {
    fn index_mut(&mut self, term: LossTerm) -> &mut f32 {
        &mut self.0[term as usize]
    }
}

// The index of a term in the list is its number.
const _: () = {
    let mut i = 0;
    while i < LossTerm::ALL.len() {
        assert!(LossTerm::ALL[i] as usize == i);
        i += 1;
    }
};
