//! Pose refinement.

pub mod conformance;

/// The step of the optimizer is the engines' own function, which tests compare with finite differences.
pub mod oracle {
    pub use dapple_engine::{PoseMoments, refine_pose};
}
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! poses_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [],
            each: [],
            all: [poses_match_the_reference],
        }
    };
}
#[doc(hidden)]
pub use crate::poses_checks as checks;
