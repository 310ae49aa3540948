//! Regularisers: terms of the loss over Gaussians. [`crate::conformance::extras_match_the_reference`] checks them
//! together with noise.

pub mod oracle;

/// No checks of its own.
pub mod conformance {}

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! regularise_checks {
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
pub use crate::regularise_checks as checks;
