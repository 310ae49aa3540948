//! `finite`: looks for parameters that are not finite, now and then. See `shaders/finite.wgsl`.

use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// What runs after the report of a step.
#[derive(Debug, Clone)]
pub struct Finite {
    kernel: Kernel,
}

impl Finite {
    /// Compiles its kernel.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            kernel: context.kernel("finite", "finite")?,
        })
    }

    /// Records it, over the Gaussians that the step before it had.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let over = [("state_read", buffers.get("state")?)];
        let bound = buffers.bind_with(&context.gpu, &self.kernel, &over)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
