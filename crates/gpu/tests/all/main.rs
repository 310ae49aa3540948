//! The integration tests of this crate, as one program: linking is most of the cost of another program.

#![allow(clippy::too_many_lines, reason = "a test is one scenario")]

/// Ends a test, with a message, on a machine without any GPU driver.
macro_rules! require_gpu {
    () => {
        if !crate::support::has_gpu() {
            return;
        }
    };
}

mod blend;
mod blocks;
mod browser_limits;
mod conformance;
mod cpu_agreement;
mod densify;
mod engine;
mod front;
mod layout;
mod loss;
mod morton;
mod nearest;
mod on_device;
mod only_renders;
mod passes;
mod photos;
mod pictures;
mod ranks;
mod score;
mod shown;
mod support;
mod tiles;
mod translate;
mod update;
mod update_precision;
