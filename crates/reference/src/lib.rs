//! The truth that splatting engines are held to, for those who write one: a development dependency, never
//! part of what trains.
//!
//! - The textbook renderer in `f64` and its gradients: [`render`], [`gradients`], [`loss`], and each stage of
//!   them under the stage's name. Slow, readable, right: its gradients are those of finite differences.
//! - [`scenes`]: small scenes, degenerate ones included, that every engine is tested on.
//! - [`compare`]: how far an engine is from the reference, one number per tensor.
//! - [`conformance`]: the checks that every engine has to pass.

pub mod compare;
pub mod conformance;
mod oracle;
pub mod scenes;

pub use oracle::*;
