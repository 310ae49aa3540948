//! Shared by density control and the Morton order: a new generation of Gaussians, each taken from an old one. See
//! `shaders/gather.wgsl`.

use crate::layout::SLOT_FLOATS;
use crate::passes::{Code, ENTRY_BYTES, Kind};
use crate::recorder::{Recorder, Sort};
use dapple_scene::Result;

/// Planes moved at a time: the number that fits into `slots`, whose capacity exceeds that for Gaussians.
const PLANES: u32 = SLOT_FLOATS;

/// Bits of the keys that density control sorts by.
pub(super) const KEY_BITS: u32 = 32;

/// Names of the sort's keys and values in shaders, and the tensors they borrow.
pub(super) const SORT_KEYS: (&str, &str) = ("sort_keys", "instance_tile");
/// See [`SORT_KEYS`].
pub(super) const SORT_VALUES: (&str, &str) = ("sort_values", "sorted_slot");

pub(super) const GATHER: Code = Code::new("gather", "gather");
pub(super) const PUT_BACK: Code = Code::new("gather", "put_back");

/// Entries of the buffer `groups`; see `shaders/shared/regroup.wgsl`.
pub(super) mod entry {
    use crate::passes::Entry;

    /// Gaussians before.
    pub const OLD: Entry = Entry("REGROUP_OLD");
    /// Pairs to sort.
    pub const SORT: Entry = Entry("REGROUP_SORT");
    /// Gaussians after.
    pub const NEW: Entry = Entry("REGROUP_NEW");
    /// Children of split Gaussians.
    pub const CHILDREN: Entry = Entry("REGROUP_CHILDREN");
    /// Counts, without a dispatch.
    pub const COUNTS: Entry = Entry("REGROUP_COUNTS");

    /// All entries.
    pub const ALL: [Entry; 5] = [OLD, SORT, NEW, CHILDREN, COUNTS];
}

/// Appends the dispatches that move all data of a Gaussian: place j of every plane takes the data of Gaussian
/// `source[j]`. Gaussians that are not survivors begin without moments.
pub(super) fn record(r: &mut Recorder<'_>, source: &'static str) -> Result<()> {
    for (tensor, count) in r.state() {
        let is_moment = tensor.kind == Kind::Moments;
        for first in (0..count).step_by(PLANES as usize) {
            let words = [first, PLANES.min(count - first), u32::from(is_moment), 0];
            let batch = r.context.gpu.uniform("gather_batch", words)?;
            let (there, scratch) = (tensor.name, "slots");
            for (kernel, from, to) in [(&GATHER, there, scratch), (&PUT_BACK, scratch, there)] {
                let names = [
                    ("gather_source", source),
                    ("gather_from", from),
                    ("gather_to", to),
                ];
                r.run_with(kernel, entry::NEW, &names, &[("gather_batch", &batch)])?;
            }
            r.keep(batch);
        }
    }
    Ok(())
}

/// Appends a sort of [`SORT_KEYS`] and [`SORT_VALUES`]; the entry `SORT` has the number of pairs.
pub(super) fn record_sort(r: &mut Recorder<'_>, bits: u32, numbered: bool) -> Result<()> {
    let words_per_entry = (ENTRY_BYTES / 4) as u32;
    let pairs = r.context.declared.entries.number(entry::SORT)? as u32;
    r.sort(&Sort {
        bits,
        numbered,
        keys: SORT_KEYS.1,
        values: SORT_VALUES.1,
        keys_alt: "instance_tile_alt",
        values_alt: "instance_slot_alt",
        count: ("groups", pairs * words_per_entry + 3),
        size: entry::SORT,
    })
}
