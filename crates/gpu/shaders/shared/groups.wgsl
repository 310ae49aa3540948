// Workgroups in two dimensions where one does not hold them. Twin: `layout::groups`.

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

const GROUPS_WIDTH: u32 = 32768u;

// The dispatch that runs at least `count` workgroups; none for 0.
fn flat_groups(count: u32) -> vec4u {
    let x = min(count, GROUPS_WIDTH);
    return vec4u(x, select(0u, (count + x - 1u) / max(x, 1u), x > 0u), 1u, 0u);
}

fn groups_for(items: u32, each: u32) -> vec4u {
    return flat_groups((items + each - 1u) / each);
}

// Number of a workgroup in a flat dispatch. May lie beyond the count: return then.
fn group_number(id: vec3u, count: vec3u) -> u32 {
    return id.x + id.y * count.x;
}
