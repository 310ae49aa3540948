//! The integration tests of this crate, as one program: linking is most of the cost of another program.

mod chains;
mod edges;
mod fusion;
mod gradients;
mod layers;
mod lifetimes;
mod operations;
mod strangers;
mod support;
mod translate;
mod views;
mod windows;
