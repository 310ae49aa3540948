//! Depths, and the loss by known depths.

pub mod conformance;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! depth_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [depths_match_the_reference, depth_gradients_match_the_reference, depth_steps_match_the_reference],
            each: [],
            all: [depth_steps_repeat_themselves],
        }
    };
}
#[doc(hidden)]
pub use crate::depth_checks as checks;
