//! `emit`: one instance per (Gaussian, tile), in depth order. See `shaders/emit.wgsl`.

use crate::{Buffers, Context, layout::groups};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct Emit {
    sums: Kernel,
    total: Kernel,
    starts: Kernel,
    list: Kernel,
}

impl Emit {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            sums: context.kernel("emit", "sums")?,
            total: context.kernel("emit", "total")?,
            starts: context.kernel("emit", "starts")?,
            list: context.kernel("emit", "list")?,
        })
    }

    /// Appends the span `emit`: fills `emit_starts`, `instance_tile`, `instance_gaussian` and
    /// `state.instances`, or halts.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("emit");
        let over = [
            // `order` is done with it, and it has a word per 256 Gaussians.
            ("emit_sums", buffers.get("group_visible")?),
            // The sort has not begun with it.
            ("emit_blocks", buffers.get("instance_tile_alt")?),
        ];
        let bind = |kernel: &Kernel| buffers.bind_with(&context.gpu, kernel, &over);
        let visible = buffers.groups(groups::VISIBLE)?;
        recording.dispatch(bind(&self.sums)?, visible.clone());
        recording.dispatch(bind(&self.total)?, Groups::Direct([1, 1, 1]));
        recording.dispatch(bind(&self.starts)?, visible);
        recording.dispatch(bind(&self.list)?, buffers.groups(groups::EMIT)?);
        Ok(())
    }
}
