//! `smoothing`: sets the Gaussians' 3D filters by the views to train on. See `shaders/smoothing.wgsl`.

use crate::layout::WORKGROUP;
use crate::{Buffers, Context};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The buffer that filters are kept in, a word a Gaussian; there where something was anti-aliased.
pub const SMOOTHING: &str = "smoothing";

/// What runs before a step that asks for it.
#[derive(Debug, Clone)]
pub struct Smoothing {
    kernel: Kernel,
}

impl Smoothing {
    /// Compiles its kernel.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            kernel: context.kernel("smoothing", "smoothing_of_views")?,
        })
    }

    /// Records it for up to `capacity` Gaussians: how many there are, the step after it finds out.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
        capacity: u32,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.kernel)?;
        recording.dispatch(bound, Groups::flat(capacity.div_ceil(WORKGROUP)));
        Ok(())
    }
}
