//! Noise on centres: a permutation of `update`. See `shaders/shared/extras.wgsl`.

use super::point::Feature;
use crate::passes::Bits;
use dapple_engine::{StepSettings, ViewId};

/// Noise holds nothing.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    type State = ();

    /// Shares the permutation of regularisers.
    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.features.noise.scale != 0.0, Bits::EXTRAS)
    }
}
