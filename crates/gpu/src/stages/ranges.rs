//! `ranges`: the instances of each tile, and their buckets. See `shaders/ranges.wgsl`.

use crate::{Buffers, Context, layout::groups};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct Ranges {
    gather: Kernel,
    buckets: Kernel,
    fill: Kernel,
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
            fill: context.kernel("ranges", "fill")?,
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
        recording.dispatch(bind(&self.buckets)?, Groups::Direct([1, 1, 1]));
        recording.dispatch(bind(&self.fill)?, buffers.groups(groups::TILES)?);
        Ok(())
    }
}
