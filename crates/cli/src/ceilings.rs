//! What devices were measured to reach at most: measuring it, and the cache that verbs share.
//!
//! A file a device, in the folder that compiled kernels are kept in too; see
//! [`dapple_profile::ceilings`].

use crate::console::Console;
use crate::machine;
use dapple::AnyEngine;
use dapple::runtime::cache_folder;
use dapple::scene::{Error, Result};
use dapple_profile::ceilings::{self, DeviceKey, Measured};
use std::path::PathBuf;

/// How the cache knows the processor with so many threads.
pub fn processor_key(threads: usize) -> DeviceKey {
    dapple::cpu::ceilings::key(&processor(), threads)
}

fn processor() -> String {
    machine::processor().unwrap_or_else(|| "unknown processor".to_owned())
}

/// What was kept of a device; `None` where it has to be measured.
pub fn cached(device: &DeviceKey) -> Option<Measured> {
    ceilings::cached(&cache_folder()?, device)
}

/// Measures an engine's device, and keeps the result. Returns where, unless it cannot be kept, which
/// costs only that it is measured again.
pub fn measure(engine: &AnyEngine, console: &Console) -> Result<(Measured, Option<PathBuf>)> {
    let progress = console.progress();
    let measured = match engine {
        AnyEngine::Cpu(engine) => engine.measure_ceilings(&processor(), &progress)?,
        AnyEngine::Gpu(engine) => dapple::runtime::ceilings::measure(engine.gpu(), &progress)?,
        _ => return Err(Error::internal("an engine of a kind that is not measured")),
    };
    let Some(folder) = cache_folder() else {
        console.note("remark: not kept: there is no folder for caches");
        return Ok((measured, None));
    };
    let file = ceilings::store(&folder, &measured)
        .map_err(|e| console.note(&format!("remark: not kept in {}: {e}", folder.display())))
        .ok();
    Ok((measured, file))
}
