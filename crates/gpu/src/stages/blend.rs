//! `blend`: front to back, tile by tile. See `shaders/blend.wgsl`.

use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct Blend {
    training: Vec<Kernel>,
    image_only: Vec<Kernel>,
}

impl Blend {
    /// Compiles its kernels; with `depths`, in the permutation that also fills `depth_pixels` and, for
    /// training, `depth_checkpoints`.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, depths: bool) -> Result<Self> {
        let training = context.defines.clone().flag("DEPTH", depths);
        let image_only = training.clone().flag("IMAGE_ONLY", true);
        Ok(Self {
            training: context.kernel_parts("blend", "blend", &training)?,
            image_only: context.kernel_parts("blend", "blend", &image_only)?,
        })
    }

    /// Appends the span `blend`: fills `image` and what `blend_backward` sets out from
    /// (`checkpoints`, `pixel_end`, `block_end`), and raises `state.lost_transmittance`.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        append(&self.training, context, buffers, recording)
    }

    /// [`Self::record`] where no gradient is wanted: fills `image` alone, and needs none of the
    /// buffers of buckets.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record_image(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        append(&self.image_only, context, buffers, recording)
    }
}

fn append(
    kernels: &[Kernel],
    context: &Context,
    buffers: &Buffers,
    recording: &mut Recording,
) -> Result<()> {
    recording.span("blend");
    let entry = match kernels {
        [_] => groups::PIXELS,
        _ => groups::PIXELS_PART,
    };
    for kernel in kernels {
        let bound = buffers.bind(&context.gpu, kernel)?;
        recording.dispatch(bound, buffers.groups(entry)?);
    }
    Ok(())
}
