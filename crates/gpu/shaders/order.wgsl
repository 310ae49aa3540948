// `order`: lists the visible Gaussians as (depth, place) pairs in order of index, ready to be sorted by depth. Depths
// are positive, so their bits sort like the numbers; the sort is stable, so ties stay in order of index.
// 1. `count`, one workgroup: a prefix sum over the workgroups of `project` gives the position in the list of their
//    first visible Gaussian; a halt if the list exceeds the capacity.
// 2. `compact`: each workgroup writes its pairs.
// Reference: dapple_reference::order. CPU version: cpu/src/stages/order.rs.
//
// Bindings: state; groups; group_visible, counts in, sums out; visible_rank in, by Gaussian: 0 = invisible, or one more
// than its place; depth_bits in, by place; depth_keys, depth_values (places) out.

#import shared/halt

alias ScanValue = u32;
const SCAN_WIDTH: u32 = 256u;
#import shared/long_scan

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(2) var<storage, read_write> group_visible: array<u32>;
@group(0) @binding(3) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(4) var<storage, read> depth_bits: array<u32>;
@group(0) @binding(5) var<storage, read_write> depth_keys: array<u32>;
@group(0) @binding(6) var<storage, read_write> depth_values: array<u32>;

var<workgroup> length: u32;

fn long_scan_item(i: u32) -> u32 {
    return group_visible[i];
}

fn long_scan_put(i: u32, before: u32) {
    group_visible[i] = before;
}

@compute @workgroup_size(SCAN_WIDTH)
fn count(
#if SUBGROUPS
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) lane: u32,
#else
    @builtin(local_invocation_index) t: u32,
#endif
) {
#if !SUBGROUPS
    let group = t / SUBGROUP_SIZE;
    let lane = t % SUBGROUP_SIZE;
#endif
    let is_first = group == 0u && lane == 0u;
    if is_first {
        let parts = (state.gaussians + SCAN_WIDTH - 1u) / SCAN_WIDTH;
        length = select(0u, parts, state.halted == 0u);
    }
    let visible = long_scan(workgroupUniformLoad(&length), group, lane);
    if is_first {
        if visible > state.visible_capacity {
            halt(HALT_VISIBLE, visible);
            return;
        }
        state.visible = visible;
        groups[GROUPS_VISIBLE] = groups_for(visible, 256u);
        groups[GROUPS_SLOT_SUMS] = groups_for(visible, SLOT_SUMS_GAUSSIANS);
        groups[GROUPS_SORT_VISIBLE] = groups_for(visible, RADIX_BLOCK);
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn compact(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
#if SUBGROUPS
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) lane: u32,
#else
    @builtin(local_invocation_index) t: u32,
#endif
) {
#if !SUBGROUPS
    let group = t / SUBGROUP_SIZE;
    let lane = t % SUBGROUP_SIZE;
#endif
    let number = group_number(id, dispatched);
    let i = number * SCAN_WIDTH + group * SUBGROUP_SIZE + lane;
    var rank = 0u;
    if i < state.gaussians {
        rank = visible_rank[i];
    }
    let is_visible = rank > 0u;
    let before = workgroup_scan(select(0u, 1u, is_visible), group, lane).before;
    if is_visible {
        let at = group_visible[number] + before;
        depth_keys[at] = depth_bits[rank - 1u];
        depth_values[at] = rank - 1u;
    }
}
