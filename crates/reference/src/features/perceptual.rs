//! Loss over crops. The loss itself is the caller's, so there is no formula; tests of engines compare the crops.

/// No checks of its own.
pub mod conformance {}

/// No formulas.
pub mod oracle {}

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! perceptual_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [],
            each: [],
            all: [],
        }
    };
}
#[doc(hidden)]
pub use crate::perceptual_checks as checks;
