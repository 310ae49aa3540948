//! Runs the conformance suite on the CPU engine, with several numbers of threads.

#![allow(clippy::unwrap_used, reason = "tests")]

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::Engine;

/// Engines with 2, 1, 3 and 5 threads.
const VARIANTS: [fn() -> Box<dyn Engine>; 4] =
    [|| engine(2), || engine(1), || engine(3), || engine(5)];

fn engine(threads: usize) -> Box<dyn Engine> {
    let threads = Some(threads);
    Box::new(CpuEngine::new(CpuOptions { threads }).unwrap())
}

/// The CPU engine runs everywhere.
fn is_ready() -> bool {
    true
}

dapple_reference::conformance_tests!(VARIANTS, is_ready);
