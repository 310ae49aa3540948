//! `blend_backward`: each instance's gradient into its own slot. See `shaders/blend_backward.wgsl`.

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
    /// Compiles its kernel; with `absolute`, in the permutation that also fills `absolute_slots`.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, absolute: bool) -> Result<Self> {
        let defines = context.defines.clone().flag("ABSOLUTE", absolute);
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
