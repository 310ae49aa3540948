// Dispatches whose workgroups the GPU counts itself. On the host: `layout::groups`.

#import shared/flat_groups

// Entries of the buffer `groups`: three workgroup counts each, the fourth word is free.
const GROUPS_GAUSSIANS: u32 = 0u;       // gaussians / 256
const GROUPS_VISIBLE: u32 = 1u;         // visible / 256
const GROUPS_SLOT_SUMS: u32 = 2u;       // visible / SLOT_SUMS_GAUSSIANS
const GROUPS_BUCKETS: u32 = 3u;         // buckets
const GROUPS_PIXELS: u32 = 6u;          // tiles (one workgroup a tile)
const GROUPS_SORT_VISIBLE: u32 = 7u;    // visible / radix block
const GROUPS_SORT_INSTANCES: u32 = 8u;  // instances / radix block
const GROUPS_NEXT: u32 = 9u;            // density control, see densify.wgsl
const GROUPS_UPDATE: u32 = 30u;         // gaussians / UPDATE_THREADS
// For devices that kill long dispatches: see DISPATCH_PARTS.
const GROUPS_PIXELS_PART: u32 = 29u;    // tiles / DISPATCH_PARTS
const GROUPS_BUCKETS_PART: u32 = 28u;   // buckets / DISPATCH_PARTS
const GROUPS_EMIT: u32 = 31u;           // instances / EMIT_BLOCK
