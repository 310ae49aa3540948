//! Photometric models of views and cameras.

pub mod conformance;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! photometric_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [photometric_matches_the_reference],
            each: [],
            all: [photometric_repeats_itself],
        }
    };
}
#[doc(hidden)]
pub use crate::photometric_checks as checks;
