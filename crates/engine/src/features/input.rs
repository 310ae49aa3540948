//! [`FeatureInput`]: data that features of a run need in addition to photos and splats.

use super::depth::DepthSample;
use super::normals::matching::MatchedView;
use super::perceptual::CropLoss;
use crate::ViewId;
use dapple_scene::Error;

/// Input of a feature, passed to an engine once before the steps that use it.
#[derive(Debug)]
pub enum FeatureInput {
    /// Known depths of a view, which replace its earlier ones. Samples are in ascending order of pixel, at most one per
    /// pixel. Steps whose weight of [`crate::LossTerm::Depth`] is not 0 compare with them.
    Depth(ViewId, Vec<DepthSample>),
    /// Loss over crops for an engine on the host; `None` removes the loss. Steps whose weight of [`crate::LossTerm::Perceptual`] is
    /// not 0 evaluate it. See [`crate::crops`].
    Perceptual(Option<Box<dyn CropLoss>>),
    /// Views whose photos steps compare with a neighbour's, which replace the earlier ones. Steps whose weight of
    /// [`crate::LossTerm::Matching`] is not 0 do so.
    Matching(Vec<MatchedView>),
}

impl FeatureInput {
    /// Returns the error of an engine none of whose features takes this input.
    pub fn unused(&self) -> Error {
        Error::internal(format!("the engine has no input of {}", self.feature()))
    }

    /// Returns the name of the feature, for messages.
    pub fn feature(&self) -> &'static str {
        match self {
            Self::Depth(..) => "depth",
            Self::Perceptual(_) => "perceptual",
            Self::Matching(_) => "matching photos (--surface)",
        }
    }
}
