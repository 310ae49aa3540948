//! Entries of the buffer `groups`, and their places.

pub use dapple_gpu::passes::ENTRY_BYTES as BYTES;
pub use dapple_gpu::stages::emit::EMIT;
pub use dapple_gpu::stages::order::{SLOT_SUMS, VISIBLE};
pub use dapple_gpu::stages::project::{GAUSSIANS, PIXELS, UPDATE};
pub use dapple_gpu::stages::ranges::BUCKETS;

use dapple_gpu::catalogue::declared;
use dapple_gpu::passes::Entry;

/// Returns the number of entries.
pub fn count() -> u64 {
    declared().entries.count()
}

/// Returns the number of an entry.
pub fn number(entry: Entry) -> usize {
    declared().entries.number(entry).unwrap() as usize
}

/// Returns the offset of an entry, bytes.
pub fn offset(entry: Entry) -> u64 {
    declared().entries.offset(entry).unwrap()
}
