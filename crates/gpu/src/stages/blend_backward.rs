//! `blend_backward`: each instance's gradient into its own slot. See `shaders/blend_backward.wgsl`.

use super::update::Mode;
use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct BlendBackward {
    kernels: Vec<Kernel>,
}

impl BlendBackward {
    /// Compiles its kernel in the permutation that `mode` asks for: some also fill `extra_slots`.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, mode: Mode) -> Result<Self> {
        let defines = mode.define(context.defines.clone());
        Ok(Self {
            kernels: context.kernel_parts("blend_backward", "blend_backward", &defines)?,
        })
    }

    /// Appends the span `blend_backward`: fills `slots` from `image_gradient` and what `blend` left.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("blend_backward");
        let entry = match self.kernels.as_slice() {
            [_] => groups::BUCKETS,
            _ => groups::BUCKETS_PART,
        };
        for kernel in &self.kernels {
            let bound = buffers.bind(&context.gpu, kernel)?;
            recording.dispatch(bound, buffers.groups(entry)?);
        }
        Ok(())
    }
}
