// Exclusive prefix sum of u32. The count is in a GPU buffer. Three dispatches:
// 1. `reduce`: each workgroup sums a block of SCAN_BLOCK items.
// 2. `sums`: one workgroup scans the sums of the blocks, and writes the total after the output.
// 3. `downsweep`: each workgroup scans its block, starting from the sum before the block. Blelloch, "Prefix Sums and
//    Their Applications" (1990), with blocks instead of a tree. No decoupled look-back: look-back waits for other
//    workgroups, and not every GPU guarantees that they run.
//
// Bindings: scan_input, the items; scan_index (permutation GATHER), the index of the i-th item; scan_output, [count +
// 1]; scan_sums, one word per block; scan_count, the buffer that holds the count, at word scan_where.x.

#import shared/flat_groups

alias ScanValue = u32;
const SCAN_WIDTH: u32 = 256u;
#import shared/long_scan

const SCAN_EACH: u32 = SCAN_BLOCK / SCAN_WIDTH;

@group(0) @binding(0) var<storage, read> scan_count: array<u32>;
@group(0) @binding(1) var<uniform> scan_where: vec4u;
@group(0) @binding(2) var<storage, read> scan_input: array<u32>;
@group(0) @binding(3) var<storage, read> scan_index: array<u32>;
@group(0) @binding(4) var<storage, read_write> scan_output: array<u32>;
@group(0) @binding(5) var<storage, read_write> scan_sums: array<u32>;

fn items() -> u32 {
    return scan_count[scan_where.x];
}

fn item(i: u32) -> u32 {
#if GATHER
    return scan_input[scan_index[i]];
#else
    return scan_input[i];
#endif
}

fn long_scan_item(i: u32) -> u32 {
    return scan_sums[i];
}

fn long_scan_put(i: u32, before: u32) {
    scan_sums[i] = before;
}

// Items of invocation `t` of block `block`; 0 beyond the end.
fn block_items(block: u32, t: u32, count: u32) -> array<u32, SCAN_EACH> {
    var values: array<u32, SCAN_EACH>;
    for (var k = 0u; k < SCAN_EACH; k++) {
        let i = block * SCAN_BLOCK + t * SCAN_EACH + k;
        values[k] = 0u;
        if i < count {
            values[k] = item(i);
        }
    }
    return values;
}

@compute @workgroup_size(SCAN_WIDTH)
fn reduce(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let group = group_of(at);
    let lane = lane_of(at);
    let count = items();
    let block = group_number(id, dispatched);
    if block * SCAN_BLOCK >= count {
        return;
    }
    let values = block_items(block, group * SUBGROUP_SIZE + lane, count);
    var sum = 0u;
    for (var k = 0u; k < SCAN_EACH; k++) {
        sum += values[k];
    }
    let scanned = workgroup_scan(sum, group, lane);
    if group == 0u && lane == 0u {
        scan_sums[block] = scanned.total;
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn sums(at: Invocation) {
    let group = group_of(at);
    let lane = lane_of(at);
    let count = items();
    let total = long_scan((count + SCAN_BLOCK - 1u) / SCAN_BLOCK, group, lane);
    if group == 0u && lane == 0u {
        scan_output[count] = total;
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn downsweep(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let group = group_of(at);
    let lane = lane_of(at);
    let t = group * SUBGROUP_SIZE + lane;
    let count = items();
    let block = group_number(id, dispatched);
    if block * SCAN_BLOCK >= count {
        return;
    }
    let values = block_items(block, t, count);
    var sum = 0u;
    for (var k = 0u; k < SCAN_EACH; k++) {
        sum += values[k];
    }
    var before = scan_sums[block] + workgroup_scan(sum, group, lane).before;
    for (var k = 0u; k < SCAN_EACH; k++) {
        let i = block * SCAN_BLOCK + t * SCAN_EACH + k;
        if i < count {
            scan_output[i] = before;
        }
        before += values[k];
    }
}
