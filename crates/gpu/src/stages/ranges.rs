//! `ranges`: the instances of each tile, and their buckets. See `shaders/ranges.wgsl`.

use crate::layout::{self, groups};
use crate::{Buffers, Context};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct Ranges {
    gather: Kernel,
    buckets: Kernel,
}

impl Ranges {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            gather: context.kernel("ranges", "gather")?,
            buckets: context.kernel("ranges", "buckets")?,
        })
    }

    /// Appends the span `ranges`: fills `sorted_gaussian`, `tile_start`, `bucket_start`,
    /// `bucket_tile` and the counts of `state`, or halts.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("ranges");
        let over = [("sorted_keys", buffers.get("instance_tile")?)];
        let bind = |kernel: &Kernel| buffers.bind_with(&context.gpu, kernel, &over);
        recording.dispatch(bind(&self.gather)?, buffers.groups(groups::EMIT)?);
        // It writes the buffer that indirect dispatches are taken from, so it cannot be one: as many
        // as the largest view needs.
        let tiles = (buffers.get("tile_start")?.size() / 4) as u32;
        let each = Groups::flat(tiles.div_ceil(layout::WORKGROUP));
        recording.dispatch(bind(&self.buckets)?, each);
        Ok(())
    }
}
