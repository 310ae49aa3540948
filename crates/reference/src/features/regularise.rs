//! Regularisers: terms of the loss over Gaussians. [`crate::conformance::extras_match_the_reference`] checks them
//! together with noise.

pub mod oracle;

/// No checks of its own.
pub mod conformance {}

#[doc(hidden)]
pub use crate::no_checks as checks;
