//! Benchmarks of training on this machine, and comparison with the limits of its hardware.
//!
//! [`stages`] measures on synthetic splats, [`step`] on the points of a real scene ([`garden`]), [`mod@ranks`] the same on
//! several devices, [`render`] frames without training, [`train`] on a capture. They share three modules. [`measure`](mod@measure) times steps of any engine. [`rows`] is a table of stages
//! with their costs. [`times`] holds times of repeated work. [`ops`] measures tensor operations.

pub mod garden;
pub mod measure;
pub mod ops;
mod random;
pub mod ranks;
pub mod render;
pub mod rows;
pub mod stages;
pub mod step;
pub mod times;
pub mod train;

use crate::machine;
use dapple::AnyEngine;
use dapple::Result;
use dapple::cpu::level_name;
use dapple::runtime::AdapterReport;
use rows::LimitRow;
use serde::Serialize;

/// Machine of a measurement.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Description of the engine and its device.
    pub device: String,
    /// Name of the CPU.
    pub processor: Option<String>,
    /// Operating system with its version.
    pub operating_system: String,
    /// Memory of the machine, bytes.
    pub memory_bytes: Option<u64>,
    /// Threads of the CPU engine.
    pub threads: Option<usize>,
    /// The vector units that the CPU engine uses.
    pub simd: Option<&'static str>,
    /// The device of the GPU engine.
    pub gpu: Option<AdapterReport>,
}

impl Machine {
    /// Describes the machine of an engine.
    pub fn from_engine(engine: &AnyEngine) -> Self {
        let gpu = match engine {
            AnyEngine::Gpu(engine) => Some(engine.gpu().report().clone()),
            _ => None,
        };
        let threads = engine.instrument().workers();
        Self {
            device: engine.instrument().description(),
            processor: machine::processor(),
            operating_system: machine::operating_system(),
            memory_bytes: machine::memory_bytes(),
            threads,
            simd: threads.map(|_| level_name()),
            gpu,
        }
    }

    /// Formats the machine on a line for the user.
    pub fn line(&self) -> String {
        let name = self.processor.as_deref().unwrap_or("unknown CPU");
        match (&self.gpu, self.threads, self.simd) {
            (Some(gpu), ..) => format!(
                "machine   {} ({}, driver {}), host {name}",
                gpu.name, gpu.backend, gpu.driver
            ),
            (None, Some(threads), Some(simd)) => {
                format!("machine   {name}, {threads} threads, {simd}")
            }
            _ => format!("machine   {name}"),
        }
    }
}

/// Returns the limits of the engine's device, and the scatter of their measurement
/// ([`dapple_profile::ceilings::is_scattered`] evaluates it).
///
/// # Errors
/// No memory for the measurement; a lost device.
pub fn limits(engine: &AnyEngine) -> Result<(LimitRow, f64)> {
    let limits = engine.instrument().measure_limits()?;
    let row = LimitRow {
        gflops: limits.flops_per_second * 1e-9,
        gb_per_s: limits.bytes_per_second * 1e-9,
    };
    Ok((row, limits.spread))
}
