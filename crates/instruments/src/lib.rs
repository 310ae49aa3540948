//! Dapple's instruments: benchmarks, and the profiler of a training run. They measure any engine that is
//! [`Instrumented`] and know nothing of how it does its work.
//!
//! - [`bench`](mod@bench): what a training step takes, stage by stage, on made-up splats, on the field's fixed
//!   scene, on a capture.
//! - [`profile`](mod@profile): a short run under a probe, and the report of what held it back.
//! - [`ceilings`]: what a device was measured to do at most, and where that is stored.
//! - [`ops`]: tensor operations under the same profiler.
//! - [`machine`]: what the machine is.
//!
//! Nothing here prints or reads a command line; callers do. Numbers come back as values with
//! [`serde::Serialize`], remarks (a busy machine) as values too.
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
//! let machine = Machine::of(&engine);
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

use dapple::{AnyEngine, Result};

/// How engines are opened: each measurement takes a fresh one. The argument says whether a GPU is to time its
/// stages.
pub type Open<'a> = dyn Fn(bool) -> Result<AnyEngine> + 'a;
