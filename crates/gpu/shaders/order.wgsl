// `order`: lists the visible Gaussians as (depth, place) pairs in order of index, ready to be sorted by depth. Depths
// are positive, so their bits sort like the numbers; the sort is stable, so ties stay in order of index.
// 1. `count`, one workgroup: a prefix sum over the workgroups of `project` gives the position in the list of their
//    first visible Gaussian; a halt if the list exceeds the capacity.
// 2. `compact`: each workgroup writes its pairs. In a render of several views `compact_frames`: the Gaussians of a
//    workgroup of `project` have places side by side, so it needs only the first.
// Reference: dapple_reference::order. CPU version: cpu/src/stages/order.rs.
//
// Bindings: state; groups; group_visible, counts in, sums out; visible_rank in, by Gaussian: 0 = invisible, or one more
// than its place; frame_places in, the first place of each workgroup; depth_bits in, by place; depth_keys, depth_values
// (places) out.

#import shared/halt

alias ScanValue = u32;
const SCAN_WIDTH: u32 = 256u;
#import shared/block_scan

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(2) var<storage, read_write> group_visible: array<u32>;
@group(0) @binding(3) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(4) var<storage, read> depth_bits: array<u32>;
@group(0) @binding(5) var<storage, read_write> depth_keys: array<u32>;
@group(0) @binding(6) var<storage, read_write> depth_values: array<u32>;
@group(0) @binding(7) var<storage, read> frame_places: array<u32>;

fn long_scan_item(i: u32) -> u32 {
    return group_visible[i];
}

fn long_scan_put(i: u32, before: u32) {
    group_visible[i] = before;
}

@compute @workgroup_size(SCAN_WIDTH)
fn count(at: Invocation) {
    // The last workgroup of a single view may be short; those of several views count as whole.
    let blocks = (state.gaussians + SCAN_WIDTH - 1u) / SCAN_WIDTH;
    let items = select(state.gaussians, blocks * SCAN_WIDTH * step.frames, step.frames > 0u);
    let visible = scan_blocks(select(0u, items, state.halted == 0u), at);
    if index_of(at) == 0u {
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
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let i = item_of(block, at);
    var rank = 0u;
    if i < state.gaussians {
        rank = visible_rank[i];
    }
    let is_visible = rank > 0u;
    let before = scan_of(select(0u, 1u, is_visible), at).before;
    if is_visible {
        let place = long_scan_item(block) + before;
        depth_keys[place] = depth_bits[rank - 1u];
        depth_values[place] = rank - 1u;
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn compact_frames(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let group = group_number(id, dispatched);
    let groups = (state.gaussians + SCAN_WIDTH - 1u) / SCAN_WIDTH * step.frames;
    if group >= groups {
        return;
    }
    let first = long_scan_item(group);
    var end = state.visible;
    if group + 1u < groups {
        end = long_scan_item(group + 1u);
    }
    if first + index_of(at) < end {
        let place = frame_places[group] + index_of(at);
        depth_keys[first + index_of(at)] = depth_bits[place];
        depth_values[first + index_of(at)] = place;
    }
}
