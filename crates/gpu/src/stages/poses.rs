//! Pose refinement, around `update`: see `shaders/pose_sums.wgsl` and `shaders/poses.wgsl`.

use crate::layout::groups;
use crate::stages::gather::ONE;
use crate::stages::update::Mode;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// The two kernels.
#[derive(Debug, Clone)]
pub struct Poses {
    sums: Kernel,
    step: Kernel,
}

impl Poses {
    /// Compiles them for steps of this mode.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, mode: Mode) -> Result<Self> {
        Ok(Self {
            sums: mode.kernel(context, "pose_sums", "pose_sum")?,
            step: context.kernel("poses", "poses")?,
        })
    }

    /// Appends the derivative by the camera's motion: once slots are summed, before parameters change.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record_sums(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.sums)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }

    /// Appends the step of the view's pose.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record_step(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.dispatch(buffers.bind(&context.gpu, &self.step)?, ONE);
        Ok(())
    }
}
