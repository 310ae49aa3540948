// Shared by density control and the Morton order: a new generation of Gaussians, each with the number of the old
// Gaussian that it comes from. Entries of the buffer `groups`, all zero while the engine is halted; the fourth word of
// each is a count. On the host: `stages::gather`.

#import shared/groups

// - REGROUP_OLD: Gaussians before / 256; the Gaussians.
// - REGROUP_SORT: pairs to sort / RADIX_BLOCK; the pairs.
// - REGROUP_NEW: Gaussians after / 256; the Gaussians.
// - REGROUP_CHILDREN: children of split Gaussians, or places that relocation fills / 256; their number.
// - REGROUP_COUNTS: no dispatch: survivors, clones, parents of children that stay, Gaussians that grow. Until these
//   counts are known, the first is the number of Gaussians to grow.

// Bit of a source: a Gaussian from this source starts without moments.
const REGROUP_FRESH: u32 = 0x80000000u;

fn regroup_for(items: u32, each: u32) -> vec4u {
    return vec4u(groups_for(items, each).xyz, items);
}
