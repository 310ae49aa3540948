//! `update`: from slots to new parameters; `gradients`: the same, written out instead.

use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// The stage `update`; see `shaders/update.wgsl`.
#[derive(Debug, Clone)]
pub struct Update {
    update: Kernel,
}

impl Update {
    /// Compiles its kernel.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            update: context.kernel("update", "update")?,
        })
    }

    /// Records the stage. Reads `slots` and what `project` and `emit` left by Gaussian; changes
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
        let bound = buffers.bind(&context.gpu, &self.update)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}

/// `update` without a step; see `shaders/gradients.wgsl`.
#[derive(Debug, Clone)]
pub struct Gradients {
    gradients: Kernel,
}

impl Gradients {
    /// Compiles its kernel.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
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
        let bound = buffers.bind(&context.gpu, &self.gradients)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
