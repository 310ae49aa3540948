//! The integration tests of this crate, as one program: linking is most of the cost of another program.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

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
