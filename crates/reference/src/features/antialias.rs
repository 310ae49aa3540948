//! Anti-aliasing: 3D filters of Gaussians.

pub mod conformance;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! antialias_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [antialiasing_matches_the_reference, dilations_match_the_reference, steps_refresh_the_3d_filter, density_control_carries_the_3d_filter],
            each: [],
            all: [antialiased_runs_repeat_themselves],
        }
    };
}
#[doc(hidden)]
pub use crate::antialias_checks as checks;
