//! Ceilings of devices: measurement and cache of the highest rates that a device reaches.
//!
//! The cache has a file for each device, in the folder of compiled kernels; see [`dapple_profile::ceilings`].

use crate::Instrumented;
use crate::machine;
use dapple::runtime::cache_folder;
use dapple::{Error, Progress, Result};
use dapple_profile::ceilings::{self, DeviceKey, Measured};
use dapple_profile::profile::Ceilings;
use std::path::PathBuf;

/// Returns the cache key of the CPU with `threads` threads.
pub fn processor_key(threads: usize) -> DeviceKey {
    dapple::cpu::ceilings::key(&processor(), threads)
}

fn processor() -> String {
    machine::processor().unwrap_or_else(|| "unknown CPU".to_owned())
}

/// Returns the stored ceilings of a device; `None` if it must be measured.
pub fn cached(device: &DeviceKey) -> Option<Measured> {
    ceilings::cached(&cache_folder()?, device)
}

/// Measures an engine's device.
///
/// # Errors
/// No memory for the measurement; a lost device; `progress` requests a stop.
pub fn measure(engine: &dyn Instrumented, progress: &dyn Progress) -> Result<Measured> {
    engine.measure_ceilings(&processor(), progress)
}

/// Stores a measurement for [`cached`]. Returns the file.
///
/// # Errors
/// There is no folder for caches, or it cannot be written to. The only consequence is that the device is measured
/// again.
pub fn store(measured: &Measured) -> Result<PathBuf> {
    let folder =
        cache_folder().ok_or_else(|| Error::unsupported("there is no folder for caches"))?;
    ceilings::store(&folder, measured)
}

/// Returns the ceilings for a profile: the stored ones of the engine's device, unless the machine was busy during their
/// measurement. Otherwise returns two of them, measured in a second, with the scatter of the measurement.
///
/// # Errors
/// No memory for the measurement; a lost device.
pub fn for_engine(engine: &dyn Instrumented) -> Result<(Ceilings, Option<f64>)> {
    if let Some(stored) = cached(&engine.ceilings_key(&processor()))
        && !was_busy(&stored)
        && let (Some(bytes_per_second), Some(flops_per_second)) =
            (stored.bytes_per_second(), stored.flops_per_second())
    {
        let ceilings = Ceilings {
            bytes_per_second,
            flops_per_second,
            dispatch_ns: stored.get("dispatch").map(|seconds| seconds * 1e9),
            source: format!("dapple bench device, {}", stored.date()),
        };
        return Ok((ceilings, None));
    }
    let (ceilings, spread) = measured_now(engine)?;
    Ok((ceilings, Some(spread)))
}

/// Returns true if a rate that times are held against scattered when it was measured.
fn was_busy(stored: &Measured) -> bool {
    let mut used = stored.rates.iter().filter(|rate| {
        let name = rate.name.as_str();
        ["copy", "triad", "fma_f32"].contains(&name)
    });
    used.any(|rate| ceilings::is_scattered(rate.spread))
}

/// The two ceilings that times are held against, measured in a second, and how much they scattered.
///
/// # Errors
/// No memory for what is measured, a lost device.
pub fn measured_now(engine: &dyn Instrumented) -> Result<(Ceilings, f64)> {
    let limits = engine.measure_limits()?;
    let ceilings = Ceilings {
        bytes_per_second: limits.bytes_per_second,
        flops_per_second: limits.flops_per_second,
        dispatch_ns: None,
        source:
            "measured by this run (copies and multiply-adds; `dapple bench device` measures more)"
                .to_owned(),
    };
    Ok((ceilings, limits.spread))
}
