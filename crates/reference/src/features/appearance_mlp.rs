//! Appearance MLP: network, embeddings of views and features of Gaussians.

pub mod conformance;
pub mod oracle;
#[cfg(test)]
mod tests;

/// Checks of engines: see [`crate::conformance_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! appearance_mlp_checks {
    ($variants:path, $is_ready:path) => {
        $crate::conformance_tests! {
            @tests $variants, $is_ready,
            first: [appearance_mlp_matches_the_reference],
            each: [],
            all: [appearance_mlp_repeats_itself],
        }
    };
}
#[doc(hidden)]
pub use crate::appearance_mlp_checks as checks;
