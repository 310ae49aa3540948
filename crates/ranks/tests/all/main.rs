//! Integration tests of this crate, as one program.

mod same_bits;
mod simulation;
mod times;
