//! Regularisers: terms of the loss over Gaussians. Their weights are those of [`crate::LossTerm`]; they have no state.

use serde::{Deserialize, Serialize};

/// Numbers of a step. The weights are in [`StepSettings::losses`](crate::StepSettings::losses).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// True if the terms act only on Gaussians that a photo has moved since their moments were cleared: those whose
    /// derivative by the logit of the opacity is not zero in this step, or whose first moment of it is not zero before
    /// the step. False: on all Gaussians.
    ///
    /// Adam divides a derivative by the root of its mean square. A copy has no moments, so that the derivative of a
    /// regulariser alone, however small, moves it by the whole learning rate in each step, until a photo shows it.
    pub moved_only: bool,
}

/// Regularisers have no state.
pub type State = ();
