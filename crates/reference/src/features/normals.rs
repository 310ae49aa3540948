//! Normal consistency: Gaussians lie in the surface that they form together.

pub mod conformance;
pub mod matching;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! normals_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [normal_steps_match_the_reference, matching_steps_match_the_reference],
            each: [],
            all: [normal_steps_repeat_themselves],
        }
    };
}
#[doc(hidden)]
pub use crate::normals_checks as checks;
