//! Features: formulas and checks of each, in a folder of its own.
//!
//! The list is [`dapple_engine::for_each_feature!`]. A feature is a file with its `mod` line. Its `oracle` has the
//! textbook functions, its `conformance` the checks of engines, and its `checks!` registers them with
//! [`conformance_tests!`](crate::conformance_tests). Its `tests` compare its
//! formulas with [finite differences](crate::finite_differences) and known values.

pub mod antialias;
pub mod appearance;
pub mod appearance_mlp;
pub mod depth;
pub mod dropout;
pub mod noise;
pub mod normals;
pub mod perceptual;
pub mod photometric;
pub mod poses;
pub mod regularise;

/// Checks of a feature that has none of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! no_checks {
    ($variants:path, $is_ready:path) => {};
}

/// Collects the items of all features.
macro_rules! features {
    ($(#[doc = $text:literal] $name:ident,)*) => {
        /// Oracles of all features.
        pub mod oracles {
            $(#[allow(unused_imports, reason = "not every feature has some")]
            pub use super::$name::oracle::*;)*
        }

        /// Checks of all features.
        pub mod checks {
            $(#[allow(unused_imports, reason = "not every feature has some")]
            pub use super::$name::conformance::*;)*
        }
    };
}

dapple_engine::for_each_feature!(features);
