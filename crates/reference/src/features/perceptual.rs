//! Loss over crops. The loss itself is the caller's, so there is no formula; tests of engines compare the crops.

/// No checks of its own.
pub mod conformance {}

/// No formulas.
pub mod oracle {}

#[doc(hidden)]
pub use crate::no_checks as checks;
