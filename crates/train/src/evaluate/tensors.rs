//! Where tensors are computed that go with an engine.

use dapple_engine::Engine;
use dapple_runtime::Gpu;
use dapple_tensor::Context;

/// The GPU that an engine runs on; `None` where only the processor computes.
pub(super) fn gpu_of(engine: &dyn Engine) -> Option<Gpu> {
    let device = engine.device_handle()?.downcast().ok()?;
    Some(*device)
}

/// Tensors on an engine's device.
pub(super) fn context_of(engine: &dyn Engine) -> Context {
    gpu_of(engine).map_or_else(Context::cpu, |gpu| Context::gpu(&gpu))
}
