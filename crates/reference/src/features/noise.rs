//! Noise on centres. [`crate::conformance::extras_match_the_reference`] checks it together with regularisers.

pub mod oracle;

/// No checks of its own.
pub mod conformance {}

#[doc(hidden)]
pub use crate::no_checks as checks;
