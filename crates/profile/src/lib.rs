//! Says what limits a program that works in steps, on the processor or on a GPU, and how far it is
//! from what the hardware can do. Knows nothing of any particular program.

pub mod html;
pub mod profile;
pub mod trace;

pub use profile::Profile;
