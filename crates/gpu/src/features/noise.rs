//! Noise on centres: a permutation of `update`. See `shaders/shared/extras.wgsl`.

use super::point::Feature;
use crate::passes::Bits;
use crate::shared_struct::shared_struct;
use dapple_engine::{GaussianUpdate, StepSettings, ViewId};

/// Noise holds nothing.
#[derive(Debug, Default)]
pub struct Held;

shared_struct! {
    /// Numbers of a step.
    pub struct Immediates {
        /// Scale of the noise on centres: [`dapple_engine::features::noise::Step::scale`].
        noise: f32,
    }
}

impl Feature for Held {
    type State = ();
    type Immediates = Immediates;
    type Parameters = ();

    fn immediates(settings: &StepSettings) -> Immediates {
        Immediates {
            noise: GaussianUpdate::of(settings).noise,
        }
    }

    /// Shares the permutation of regularisers.
    fn bits(&self, _view: ViewId, settings: &StepSettings) -> Bits {
        Bits::when(settings.features.noise.scale != 0.0, Bits::EXTRAS)
    }
}
