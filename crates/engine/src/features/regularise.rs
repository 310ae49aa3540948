//! Regularisers: terms of the loss over Gaussians. Their weights are those of [`crate::LossTerm`], and they have neither
//! numbers of their own nor a state.

/// The weights are in [`StepSettings::losses`](crate::StepSettings::losses).
pub type Step = ();

/// Regularisers have no state.
pub type State = ();
