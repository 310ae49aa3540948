//! `loss`: `(1 - w) L1 + w (1 - SSIM)` and its derivative for every pixel.
//!
//! 1. `loss_windows`: the loss by tile, and the derivatives with respect to what SSIM's windows see.
//! 2. `loss_gradient`: those derivatives filtered back to pixels, and L1's sign.
//!
//! What lies between them, `ssim_maps`, is the stage's only large buffer.

use crate::context::{Buffers, Context};
use crate::layout::groups;
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// Floats of `ssim_maps` per pixel: three derivatives for each of three channels.
pub const MAPS: u64 = 9;

/// The kernels of `loss`.
#[derive(Debug, Clone)]
pub struct Loss {
    windows: Kernel,
    gradient: Kernel,
}

impl Loss {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            windows: context.kernel("loss_windows", "windows")?,
            gradient: context.kernel("loss_gradient", "gradient")?,
        })
    }

    /// From `image` and `photo` of the step's view to `image_gradient` and `loss_partials`.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("loss");
        for kernel in [&self.windows, &self.gradient] {
            let bound = buffers.bind(&context.gpu, kernel)?;
            recording.dispatch(bound, buffers.groups(groups::PIXELS)?);
        }
        Ok(())
    }
}
