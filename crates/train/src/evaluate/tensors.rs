//! Device of the tensors that are used with an engine.

use dapple_engine::Engine;
use dapple_runtime::Gpu;
use dapple_tensor::Context;

/// Returns the GPU of an engine; `None` for an engine on the CPU.
pub(super) fn gpu_of(engine: &dyn Engine) -> Option<Gpu> {
    let device = engine.device_handle()?.downcast().ok()?;
    Some(*device)
}

/// Returns a context for tensors on an engine's device.
pub(super) fn context_of(engine: &dyn Engine) -> Context {
    gpu_of(engine).map_or_else(Context::cpu, |gpu| Context::gpu(&gpu))
}
