//! Device of the tensors that are used with an engine.

use dapple_device::BoxedEngine;
use dapple_tensor::Context;

/// Returns a context for tensors on an engine's device.
pub(super) fn context_of(engine: &BoxedEngine) -> Context {
    engine.gpu().map_or_else(Context::cpu, Context::gpu)
}
