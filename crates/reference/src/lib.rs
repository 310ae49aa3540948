//! Reference for splatting engines, for authors of engines: a development dependency, never part of training.
//!
//! - The textbook renderer in `f64` and its gradients: [`render`], [`gradients`], [`loss`], and each stage
//!   under the stage's name. It is slow and readable, and finite differences confirm its gradients.
//! - [`scenes`]: small test scenes for every engine, with degenerate ones.
//! - [`compare`]: distance of an engine from the reference, one number per tensor.
//! - [`conformance`]: checks for every engine.
//! - [`features`]: formulas and checks of each feature.
//! - [`finite_differences`]: comparison of gradients with finite differences, for tests of formulas.

pub mod compare;
pub mod conformance;
pub mod features;
pub mod finite_differences;
mod oracle;
pub mod scenes;

#[doc(hidden)]
pub use dapple_engine::for_each_feature;
pub use features::oracles::*;
pub use oracle::*;
