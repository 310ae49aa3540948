//! `sort`: instances by tile, stable, so that each tile's instances stay in depth order.

use crate::layout::{State, groups};
use crate::{Buffers, Context};
use dapple_runtime::primitives::{Count, RadixSort, SortOn};
use dapple_runtime::{Recording, wgpu};
use dapple_scene::Result;

/// The stage.
#[derive(Debug, Clone)]
pub struct SortInstances {
    sort: RadixSort,
}

/// Scratch for sorting as many pairs as `keys` has room for.
pub(super) fn scratch(context: &Context, keys: &wgpu::Buffer) -> Result<wgpu::Buffer> {
    let words = RadixSort::scratch_words(&context.gpu, keys.size() / 4);
    context.gpu.buffer("radix_scratch", words * 4)
}

impl SortInstances {
    /// Compiles its kernels, for views whose tiles are numbered in `tile_bits` bits.
    ///
    /// # Errors
    /// See [`RadixSort::new`].
    pub fn new(context: &Context, tile_bits: u32) -> Result<Self> {
        Ok(Self {
            sort: context.radix_sort(tile_bits, true)?,
        })
    }

    /// Appends the span `sort`: sorts `instance_tile`, and fills `sorted_slot` with the slots in
    /// that order.
    ///
    /// # Errors
    /// A buffer is missing, or no memory for the sort's scratch.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("sort");
        let keys = buffers.get("instance_tile")?;
        let on = SortOn {
            keys,
            // A slot is a place before the sort: the sort numbers them.
            values: buffers.get("sorted_slot")?,
            keys_alt: buffers.get("instance_tile_alt")?,
            values_alt: buffers.get("instance_slot_alt")?,
            count: Count {
                buffer: buffers.get("state")?,
                word: (std::mem::offset_of!(State, instances) / 4) as u32,
            },
            scratch: &scratch(context, keys)?,
            groups: buffers.groups(groups::SORT_INSTANCES)?,
        };
        self.sort.record(&context.gpu, recording, on)
    }
}
