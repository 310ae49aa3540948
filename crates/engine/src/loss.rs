//! The loss is a sum of terms: the list of them, and the weights that a step gives them.
//!
//! | term | of | what |
//! |---|---|---|
//! | `ssim` | the image | `w (1 - SSIM) + (1 - w) L1` against the photo: both share a weight of 1 |
//! | `perceptual` | the image | what a loss says of crops that engines do not know, such as LPIPS: see [`crate::crops`] |
//! | `depth` | depths | the relative error of expected depths where they are known, see [`crate::depth`] |
//! | `opacity` | Gaussians | the mean opacity |
//! | `scale` | Gaussians | the mean standard deviation over Gaussians and axes, world units |
//! | `flatness` | Gaussians | the mean of each one's smallest standard deviation, world units |
//!
//! The loss that is reported is that of `ssim` alone. A weight is a number of the step: schedules live in
//! training ([`StepSettings::losses`]). A term of weight 0 costs nothing.
//!
//! A term has the same name everywhere. One that looks at Gaussians alone (a *regulariser*) is:
//! 1. a variant here, with its row in [`LossTerm::ALL`];
//! 2. a file of `dapple_reference::regularisers` with value and gradient, which the tests of the reference
//!    hold to finite differences and the conformance suite holds engines to, for every term in its list;
//! 3. a file or function an engine: `cpu/src/stages/regularisers`, `gpu/shaders/shared/extras.wgsl`;
//! 4. its weight in `dapple_train::Schedule::losses`, from a number of the configuration.
//!
//! [`StepSettings::losses`]: crate::StepSettings::losses

use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// A term of the loss. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossTerm {
    /// Structural dissimilarity to the photo; L1 has the rest of this weight to 1.
    Ssim,
    /// Relative error of depths where they are known.
    Depth,
    /// The mean opacity.
    Opacity,
    /// The mean standard deviation, world units.
    Scale,
    /// The mean of each Gaussian's smallest standard deviation, world units.
    Flatness,
    /// What is said of a crop by a loss that engines do not know.
    Perceptual,
}

/// What a term looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossOf {
    /// The rendered image: its derivative is by pixels.
    Image,
    /// The rendered depths and alpha.
    Depths,
    /// The Gaussians themselves: `update` adds its derivative to what comes back from the image, for
    /// Gaussians in sight and out of it.
    Gaussians,
}

impl LossTerm {
    /// All terms.
    pub const ALL: [Self; 6] = [
        Self::Ssim,
        Self::Depth,
        Self::Opacity,
        Self::Scale,
        Self::Flatness,
        Self::Perceptual,
    ];

    /// The name in reports and tests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ssim => "ssim",
            Self::Depth => "depth",
            Self::Opacity => "opacity",
            Self::Scale => "scale",
            Self::Flatness => "flatness",
            Self::Perceptual => "perceptual",
        }
    }

    /// What it looks at.
    pub const fn of(self) -> LossOf {
        match self {
            Self::Ssim | Self::Perceptual => LossOf::Image,
            Self::Depth => LossOf::Depths,
            Self::Opacity | Self::Scale | Self::Flatness => LossOf::Gaussians,
        }
    }
}

/// The weights of a step, by term; all 0 by default.
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
    /// What `weight` says of each term.
    pub fn of(weight: impl FnMut(LossTerm) -> f32) -> Self {
        Self(LossTerm::ALL.map(weight))
    }

    /// With another weight of a term.
    #[must_use]
    pub fn with(mut self, term: LossTerm, weight: f32) -> Self {
        self[term] = weight;
        self
    }

    /// Whether a term that looks at Gaussians has a weight.
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

// A term's place in the list is its number.
const _: () = {
    let mut i = 0;
    while i < LossTerm::ALL.len() {
        assert!(LossTerm::ALL[i] as usize == i);
        i += 1;
    }
};
