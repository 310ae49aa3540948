//! Dropout of Gaussians.

pub mod conformance;
pub mod oracle;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! dropout_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [],
            each: [dropout_matches_the_reference],
            all: [],
        }
    };
}
#[doc(hidden)]
pub use crate::dropout_checks as checks;
