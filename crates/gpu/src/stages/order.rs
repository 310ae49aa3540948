//! `order`: the visible Gaussians by depth. See `shaders/order.wgsl`.

use super::project::{DEPTH_BITS, DEPTH_BITS_IN};
use super::sort::scratch;
use crate::layout::{State, groups};
use crate::{Buffers, Context};
use dapple_runtime::primitives::{Count, RadixSort, SortOn};
use dapple_runtime::{Groups, Kernel, Recording};
use dapple_scene::Result;

/// Bits of a depth: positive floats, so that the sign is always 0.
const KEY_BITS: u32 = 31;

/// The stage.
#[derive(Debug, Clone)]
pub struct Order {
    count: Kernel,
    compact: Kernel,
    sort: RadixSort,
}

impl Order {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            count: context.kernel("order", "count")?,
            compact: context.kernel("order", "compact")?,
            sort: context.radix_sort(KEY_BITS, false)?,
        })
    }

    /// Appends the span `order`: fills `depth_values` with the visible Gaussians' places, front to
    /// back, `depth_keys` with the bits of their depths, and `state.visible`; or halts.
    ///
    /// # Errors
    /// A buffer is missing, or no memory for the sort's scratch.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("order");
        let gpu = &context.gpu;
        let depths = [(DEPTH_BITS, buffers.get(DEPTH_BITS_IN)?)];
        recording.dispatch(buffers.bind(gpu, &self.count)?, Groups::Direct([1, 1, 1]));
        recording.dispatch(
            buffers.bind_with(gpu, &self.compact, &depths)?,
            buffers.groups(groups::GAUSSIANS)?,
        );
        let keys = buffers.get("depth_keys")?;
        let on = SortOn {
            keys,
            values: buffers.get("depth_values")?,
            keys_alt: buffers.get("depth_keys_alt")?,
            values_alt: buffers.get("depth_values_alt")?,
            count: Count {
                buffer: buffers.get("state")?,
                word: (std::mem::offset_of!(State, visible) / 4) as u32,
            },
            scratch: &scratch(context, keys)?,
            groups: buffers.groups(groups::SORT_VISIBLE)?,
        };
        self.sort.record(&context.gpu, recording, on)
    }
}
