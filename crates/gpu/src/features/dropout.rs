//! Dropout: see [`dapple_engine::Dropout`]. `project` draws and scales, by numbers of the step.

use super::point::Feature;
use crate::shared_struct::shared_struct;
use dapple_engine::StepSettings;
use dapple_runtime::Defines;

/// Dropout holds nothing.
#[derive(Debug, Default)]
pub struct Held;

shared_struct! {
    /// Numbers of a step.
    pub struct Immediates {
        /// The fraction of Gaussians that are omitted.
        dropout: f32,
    }
}

impl Feature for Held {
    type State = ();
    type Immediates = Immediates;
    type Parameters = ();

    fn immediates(settings: &StepSettings) -> Immediates {
        Immediates {
            dropout: settings.features.dropout.rate,
        }
    }

    fn define(defines: Defines) -> Defines {
        defines.u32("DROPOUT", dapple_engine::DROPOUT)
    }
}
