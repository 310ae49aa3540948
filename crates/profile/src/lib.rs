//! Says what limits a program that works in steps, on the processor or on a GPU, and how far it is
//! from what the hardware can do. Knows nothing of any particular program.

pub mod ceilings;
pub mod flamegraph;
pub mod profile;
#[cfg(feature = "samples")]
pub mod samples;

pub use profile::Profile;
