//! How fast this machine is at training, and how far from what it could be.
//!
//! [`stages`] measures on synthetic splats, [`step`] on the points of a real scene ([`garden`]), [`train`] on a
//! capture. They share [`measure`](mod@measure), which times steps of any engine, the [`rows`] of a table of
//! stages with their costs, and [`times`] of work done again and again.

pub mod garden;
pub mod measure;
mod random;
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

/// What the times were measured on.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The engine and its device.
    pub device: String,
    /// The processor's name.
    pub processor: Option<String>,
    /// With its version.
    pub operating_system: String,
    /// Of the machine.
    pub memory_bytes: Option<u64>,
    /// Of the CPU engine.
    pub threads: Option<usize>,
    /// The vector units that the CPU engine uses.
    pub simd: Option<&'static str>,
    /// The device of the GPU engine.
    pub gpu: Option<AdapterReport>,
}

impl Machine {
    /// Of an engine.
    pub fn of(engine: &AnyEngine) -> Self {
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

    /// For people, on a line.
    pub fn line(&self) -> String {
        let name = self.processor.as_deref().unwrap_or("unknown processor");
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

/// The most that the engine's device reaches, and how much that scattered
/// ([`dapple_profile::ceilings::is_scattered`] judges).
///
/// # Errors
/// No memory for what is measured, a lost device.
pub fn limits(engine: &AnyEngine) -> Result<(LimitRow, f64)> {
    let limits = engine.instrument().measure_limits()?;
    let row = LimitRow {
        gflops: limits.flops_per_second * 1e-9,
        gb_per_s: limits.bytes_per_second * 1e-9,
    };
    Ok((row, limits.spread))
}
