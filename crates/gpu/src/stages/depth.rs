//! The depth loss, part of the stage `loss`. See `shaders/depth_loss.wgsl`.

use super::blend::Blend;
use crate::depths::Sample;
use crate::layout::{WORKGROUP, flat_groups};
use crate::{Buffers, Context};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// What steps and renders with depths need before `blend_backward`.
#[derive(Debug, Clone)]
pub struct Depth {
    /// `blend` with depths.
    pub blend: Blend,
    loss: Kernel,
}

impl Depth {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            blend: Blend::new(context, true)?,
            loss: context.kernel("depth_loss", "depth_loss")?,
        })
    }

    /// Appends the depth loss of as many samples as `depth_samples` has room for to the span `loss`: adds
    /// to `depth_pixels` and `image_gradient`. A step says how many there are.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record_loss(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.loss)?;
        let room = buffers.get("depth_samples")?.size() / size_of::<Sample>() as u64;
        let workgroups = room.div_ceil(WORKGROUP.into()) as u32;
        recording.dispatch(bound, Groups::Direct(flat_groups(workgroups)));
        Ok(())
    }
}
