//! Bilateral grids of the views.

pub mod conformance;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! appearance_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [appearance_matches_the_reference],
            each: [],
            all: [appearance_repeats_itself],
        }
    };
}
#[doc(hidden)]
pub use crate::appearance_checks as checks;
