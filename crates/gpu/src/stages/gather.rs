//! A new generation of Gaussians, each taken from an old one: what density control and the Morton order
//! share. See `shaders/gather.wgsl`.

use crate::layout::{SLOT_FLOATS, groups};
use crate::{Buffers, Context};
use dapple_runtime::primitives::{Count, RadixSort, SortOn};
use dapple_runtime::{Groups, Kernel, Recording, wgpu};
use dapple_scene::Result;

/// Planes moved at a time: what fits into `slots`, of which there are more than Gaussians.
const PLANES: u32 = SLOT_FLOATS;

/// What the sort's keys and values are called in shaders, and the buffers they borrow.
pub(super) const SORT_KEYS: (&str, &str) = ("sort_keys", "instance_tile");
/// See [`SORT_KEYS`].
pub(super) const SORT_VALUES: (&str, &str) = ("sort_values", "sorted_slot");

/// Entries of the buffer `groups`; twin of `shaders/shared/regroup.wgsl`.
pub(super) mod entry {
    use crate::layout::groups::NEXT;

    /// Gaussians before.
    pub const OLD: u64 = NEXT;
    /// Pairs to sort.
    pub const SORT: u64 = NEXT + 1;
    /// Gaussians after.
    pub const NEW: u64 = NEXT + 2;
    /// Children of split Gaussians.
    pub const CHILDREN: u64 = NEXT + 3;
}

/// Buffers that hold Gaussians' state, each with its planes of 32-bit words.
pub type Planes<'a> = &'a [(&'static str, u32)];

/// Moves all that belongs to a Gaussian.
#[derive(Debug, Clone)]
pub(super) struct Gather {
    gather: Kernel,
    put_back: Kernel,
}

impl Gather {
    pub(super) fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            gather: context.kernel("gather", "gather")?,
            put_back: context.kernel("gather", "put_back")?,
        })
    }

    /// Appends the dispatches: place j of every plane takes what Gaussian `source[j]` had there.
    /// Those that are not survivors begin without moments.
    pub(super) fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
        planes: Planes<'_>,
        source: &wgpu::Buffer,
    ) -> Result<()> {
        for &(name, count) in planes {
            let is_moment = matches!(name, "geometry_moments" | "sh_first" | "sh_second");
            for first in (0..count).step_by(PLANES as usize) {
                let words = [first, PLANES.min(count - first), u32::from(is_moment), 0];
                let batch = context.gpu.uniform("gather_batch", words)?;
                let (there, scratch) = (buffers.get(name)?, buffers.get("slots")?);
                for (kernel, from, to) in [
                    (&self.gather, there, scratch),
                    (&self.put_back, scratch, there),
                ] {
                    let over = [
                        ("gather_batch", &batch),
                        ("gather_source", source),
                        ("gather_from", from),
                        ("gather_to", to),
                    ];
                    let bound = buffers.bind_with(&context.gpu, kernel, &over)?;
                    recording.dispatch(bound, buffers.groups(entry::NEW)?);
                }
            }
        }
        Ok(())
    }
}

/// Appends a sort of [`SORT_KEYS`] and [`SORT_VALUES`], as many as the entry `SORT` says.
pub(super) fn record_sort(
    sort: &RadixSort,
    context: &Context,
    buffers: &Buffers,
    recording: &mut Recording,
) -> Result<()> {
    let keys = buffers.get(SORT_KEYS.1)?;
    let words_per_entry = (groups::BYTES / 4) as u32;
    let on = SortOn {
        keys,
        values: buffers.get(SORT_VALUES.1)?,
        keys_alt: buffers.get("instance_tile_alt")?,
        values_alt: buffers.get("instance_slot_alt")?,
        count: Count {
            buffer: buffers.get("groups")?,
            word: entry::SORT as u32 * words_per_entry + 3,
        },
        scratch: &super::sort::scratch(context, keys)?,
        groups: buffers.groups(entry::SORT)?,
    };
    sort.record(&context.gpu, recording, on)
}

/// One workgroup.
pub(super) const ONE: Groups = Groups::Direct([1, 1, 1]);
