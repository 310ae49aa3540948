//! Dapple's instruments: benchmarks, and the profiler of a training run. They measure any engine that is
//! [`Instrumented`] and do not depend on its implementation.
//!
//! - [`bench`](mod@bench): time of a training step by stage, on synthetic splats, on the fixed-size scene, on a
//!   capture; time of tensor operations.
//! - [`profile`](mod@profile): profile of a short run, and the report of its bottlenecks.
//! - [`ceilings`]: measured limits of a device, and their cache.
//! - [`ops`]: tensor operations under the same profiler.
//! - [`machine`]: description of the machine.
//!
//! This crate does not print or read a command line; callers do. It returns numbers as values with
//! [`serde::Serialize`], and notes (a busy machine) as values too.
//!
//! # The time of every stage of a step
//!
//! ```
//! use dapple::{Device, EngineOptions, synth};
//! use dapple_instruments::bench::{Machine, limits, stages};
//!
//! // How to open an engine; `true` lets a GPU time its stages.
//! let open = |time_stages: bool| {
//!     let options = EngineOptions { time_stages, ..EngineOptions::default() };
//!     Ok(dapple::open(&Device::Cpu, &options)?.engine)
//! };
//! let engine = open(false)?;
//! let machine = Machine::from_engine(&engine);
//! let (limits, _spread) = limits(&engine)?;
//!
//! let splats = synth::splats(200, 0);
//! let run = stages::run(&open, &splats, [64, 48], 2, limits)?;
//! assert_eq!(run.stages.len(), 9);
//! println!("{}: {:.3} ms a step", machine.device, run.step.median_ms);
//! # Ok::<(), dapple::Error>(())
//! ```

pub mod bench;
pub mod ceilings;
pub mod machine;
pub mod ops;
pub mod profile;

pub use dapple::contract::instruments::Instrumented;

use dapple::{AnyEngine, Engine, Error, Result};

/// Opens an engine. Each measurement uses a new engine. The argument is true if a GPU should time its stages.
pub type Open<'a> = dyn Fn(bool) -> Result<AnyEngine> + 'a;

/// Returns the measurements of an engine.
///
/// # Errors
/// The engine measures nothing.
pub(crate) fn instruments_of(engine: &mut dyn Engine) -> Result<&mut dyn Instrumented> {
    let what = "this engine has no measurements";
    engine.instruments().ok_or_else(|| Error::unsupported(what))
}
