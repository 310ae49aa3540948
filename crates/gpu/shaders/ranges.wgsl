// `ranges`: which instances a tile blends, and in which buckets of 32 `blend_backward` takes them.
// 1. `gather`: a workgroup a block of sorted instances. Looks up each one's Gaussian; and every tile
//    that begins in the block, or is empty between its instances, finds its first instance by a binary
//    search over the block's keys.
// 2. `buckets`, one workgroup: of each tile the instances that count (the first `cap`), a prefix sum
//    over their buckets, the largest tile, what the cap cuts; a halt if there is no room for so many
//    buckets.
// 3. `fill`: a workgroup per 256 tiles writes the tile of each of their buckets.
// Reference: engine::reference::ranges; twin: cpu/src/stages/ranges.rs.
//
// Bindings: views, state, groups; sorted_keys, the tiles, sorted; sorted_slot, the slots in that order;
// instance_gaussian by slot; sorted_gaussian out; tile_start, bucket_start, [tiles + 1]; bucket_tile.

#import shared/halt

// Buckets, and instances that are cut.
alias ScanValue = vec2u;
const SCAN_WIDTH: u32 = 256u;
#import shared/long_scan

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read_write> state: State;
@group(0) @binding(2) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(3) var<storage, read> sorted_keys: array<u32>;
@group(0) @binding(4) var<storage, read> sorted_slot: array<u32>;
@group(0) @binding(5) var<storage, read> instance_gaussian: array<u32>;
@group(0) @binding(6) var<storage, read_write> sorted_gaussian: array<u32>;
@group(0) @binding(7) var<storage, read_write> tile_start: array<u32>;
@group(0) @binding(8) var<storage, read_write> bucket_start: array<u32>;
@group(0) @binding(9) var<storage, read_write> bucket_tile: array<u32>;

var<workgroup> keys: array<u32, EMIT_BLOCK>;

fn tile_count() -> u32 {
    let size = views[step.view].tiles;
    return size.x * size.y;
}

@compute @workgroup_size(SCAN_WIDTH)
fn gather(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let instances = state.instances;
    let first = group_number(id, dispatched) * EMIT_BLOCK;
    for (var place = t; place < EMIT_BLOCK; place += SCAN_WIDTH) {
        // Behind the end stands what is larger than every tile.
        keys[place] = 0xffffffffu;
        if first + place < instances {
            keys[place] = sorted_keys[first + place];
            sorted_gaussian[first + place] = instance_gaussian[sorted_slot[first + place]];
        }
    }
    workgroupBarrier();
    if first >= instances {
        return;
    }
    // Tiles that begin here; the last block also has those behind the last instance.
    var tile = t;
    if first > 0u {
        tile += sorted_keys[first - 1u] + 1u;
    }
    let is_last = first + EMIT_BLOCK >= instances;
    let last = select(keys[EMIT_BLOCK - 1u], tile_count(), is_last);
    for (; tile <= last; tile += SCAN_WIDTH) {
        var place = 0u;
        for (var half = EMIT_BLOCK / 2u; half > 0u; half /= 2u) {
            place += select(0u, half, keys[place + half - 1u] < tile);
        }
        place += select(0u, 1u, keys[place] < tile);
        tile_start[tile] = min(first + place, instances);
    }
}

// Instances of a tile that are blended.
fn counted(instances: u32) -> u32 {
    return select(instances, min(instances, step.cap), step.cap > 0u);
}

struct Job {
    tiles: u32,
    instances: u32,
}

var<workgroup> job: Job;
// Most instances of a tile: of this invocation's, and of all.
var<private> most_here: u32;
var<workgroup> most: atomic<u32>;

fn long_scan_item(tile: u32) -> vec2u {
    // Without instances `gather` does not run.
    if job.instances == 0u {
        tile_start[tile] = 0u;
        return vec2u();
    }
    let instances = tile_start[tile + 1u] - tile_start[tile];
    let blended = counted(instances);
    most_here = max(most_here, instances);
    return vec2u((blended + BUCKET - 1u) / BUCKET, instances - blended);
}

fn long_scan_put(tile: u32, before: vec2u) {
    bucket_start[tile] = before.x;
}

@compute @workgroup_size(SCAN_WIDTH)
fn buckets(
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
        job = Job(select(0u, tile_count(), state.halted == 0u), state.instances);
        atomicStore(&most, 0u);
    }
    let sum = long_scan(workgroupUniformLoad(&job).tiles, group, lane);
    atomicMax(&most, most_here);
    workgroupBarrier();
    if !is_first || state.halted != 0u {
        return;
    }
    if sum.x > state.bucket_capacity {
        halt(HALT_BUCKETS, sum.x);
        return;
    }
    state.buckets = sum.x;
    state.cut_instances = sum.y;
    state.max_per_tile = atomicLoad(&most);
    if state.instances == 0u {
        tile_start[tile_count()] = 0u;
    }
    bucket_start[tile_count()] = sum.x;
    groups[GROUPS_BUCKETS] = flat_groups(sum.x);
}

var<workgroup> starts: array<u32, SCAN_WIDTH>;

@compute @workgroup_size(SCAN_WIDTH)
fn fill(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let tiles = tile_count();
    let first = group_number(id, dispatched) * SCAN_WIDTH;
    if first >= tiles {
        return;
    }
    // Tiles behind the last begin where it ends, and hold nothing.
    starts[t] = bucket_start[min(first + t, tiles)];
    workgroupBarrier();
    let end = bucket_start[min(first + SCAN_WIDTH, tiles)];
    for (var bucket = starts[0] + t; bucket < end; bucket += SCAN_WIDTH) {
        // The last tile that begins here or before: empty ones come before the one that has it.
        var tile = 0u;
        for (var half = SCAN_WIDTH / 2u; half > 0u; half /= 2u) {
            tile += select(0u, half, starts[tile + half] <= bucket);
        }
        bucket_tile[bucket] = first + tile;
    }
}
