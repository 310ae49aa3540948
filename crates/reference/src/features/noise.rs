//! Noise on centres. [`crate::conformance::extras_match_the_reference`] checks it together with regularisers.

pub mod oracle;

/// No checks of its own.
pub mod conformance {}

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! noise_checks {
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
pub use crate::noise_checks as checks;
