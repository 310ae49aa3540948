//! Regularisers: terms of the loss over Gaussians, a permutation of `update`. See `shaders/shared/extras.wgsl`.

use super::point::Feature;
use crate::passes::Bits;
use dapple_engine::{StepSettings, ViewId};

/// Regularisers hold nothing.
#[derive(Debug, Default)]
pub struct Held;

impl Feature for Held {
    type State = ();
    type Immediates = ();
    type Parameters = ();

    /// Shares the permutation of noise.
    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.losses.regularise(), Bits::EXTRAS)
    }
}
