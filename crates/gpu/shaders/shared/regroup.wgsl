// What density control and the Morton order have in common: a new generation of Gaussians, each of
// which names the old one it comes from. Entries of the buffer `groups`, all zero while the engine is
// halted; the fourth word of each is a count. Twin: `stages::gather`.

#import shared/groups

// Gaussians before / 256; the Gaussians.
const REGROUP_OLD: u32 = GROUPS_NEXT;
// Pairs to sort / RADIX_BLOCK; the pairs.
const REGROUP_SORT: u32 = GROUPS_NEXT + 1u;
// Gaussians after / 256; the Gaussians.
const REGROUP_NEW: u32 = GROUPS_NEXT + 2u;
// Children of split Gaussians, or places that relocation fills / 256; their number.
const REGROUP_CHILDREN: u32 = GROUPS_NEXT + 3u;
// No dispatch: survivors, clones, parents of children that stay, Gaussians that grow. Until they are
// known, the first says how many want to grow.
const REGROUP_COUNTS: u32 = GROUPS_NEXT + 4u;
const REGROUP_ENTRIES: u32 = 5u;

// Set beside a source: who comes from there begins without moments.
const REGROUP_FRESH: u32 = 0x80000000u;

fn regroup_for(items: u32, each: u32) -> vec4u {
    return vec4u(groups_for(items, each).xyz, items);
}
