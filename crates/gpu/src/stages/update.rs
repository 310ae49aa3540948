//! `update`: from slots to new parameters; `gradients`: the same, written out instead.

use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// What both begin with: `splat_gradients` from `slots`; see `shaders/slot_sums.wgsl`.
#[derive(Debug, Clone)]
struct SlotSums {
    kernel: Kernel,
}

impl SlotSums {
    fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            kernel: context.kernel("slot_sums", "slot_sums")?,
        })
    }

    fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.kernel)?;
        recording.dispatch(bound, buffers.groups(groups::VISIBLE)?);
        Ok(())
    }
}

/// The stage `update`; see `shaders/update.wgsl`.
#[derive(Debug, Clone)]
pub struct Update {
    sums: SlotSums,
    update: Kernel,
}

impl Update {
    /// Compiles its kernels; with `extras`, in the permutation that adds
    /// [`dapple_engine::Extras`].
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, extras: bool) -> Result<Self> {
        let defines = context.defines.clone().flag("EXTRAS", extras);
        let (gpu, shaders) = (&context.gpu, &context.shaders);
        Ok(Self {
            sums: SlotSums::new(context)?,
            update: Kernel::new(gpu, shaders, "update", "update", &defines)?,
        })
    }

    /// Records the stage. Reads `slots` and what the stages before left of visible
    /// Gaussians; changes
    /// parameters, moments and, with [`crate::layout::FLAG_DENSITY`], `stats`.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("update");
        self.sums.record(context, buffers, recording)?;
        let bound = buffers.bind(&context.gpu, &self.update)?;
        recording.dispatch(bound, buffers.groups(groups::UPDATE)?);
        Ok(())
    }
}

/// `update` without a step; see `shaders/gradients.wgsl`.
#[derive(Debug, Clone)]
pub struct Gradients {
    sums: SlotSums,
    gradients: Kernel,
}

impl Gradients {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            sums: SlotSums::new(context)?,
            gradients: context.kernel("gradients", "gradients")?,
        })
    }

    /// Records it. Writes `gradient_geometry` `[14, capacity]`, `gradient_sh`
    /// `[(K - 1) * 3, capacity]`, `gradient_means2d` `[2, capacity]` and, six floats for every 256
    /// Gaussians, `gradient_pose`.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("gradients");
        self.sums.record(context, buffers, recording)?;
        let bound = buffers.bind(&context.gpu, &self.gradients)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
