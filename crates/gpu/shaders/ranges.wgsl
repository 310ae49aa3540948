// `ranges`: finds the instances that a tile blends, and their buckets of BUCKET for `blend_backward`.
// 1. `gather`: a workgroup per block of sorted instances. It looks up the Gaussian of each instance (its place among
//    the visible Gaussians). Every tile that begins in the block, or is empty between its instances, finds its first
//    instance by a binary search over the block's keys.
// 2. `buckets`: a workgroup per 256 tiles adds up the buckets of all tiles before its own, which is quicker than
//    waiting for another dispatch to do so. Then it places its tiles' buckets and writes their tiles. The last
//    workgroup knows all tiles: it writes the counts, or halts if the buckets exceed the capacity.
// 3. `buckets` also writes the order in which `blend` takes the tiles: full tiles first, so that none of them begins
//    when all others are done. The rest fills the list from its end, so that a tile's place follows only from the tiles
//    before it.
// Reference: dapple_reference::ranges. CPU version: cpu/src/stages/ranges.rs.
//
// Bindings: views, state, groups; sorted_keys, the tiles, sorted; sorted_slot, the slots in that order;
// instance_gaussian by slot; sorted_gaussian out; tile_start, bucket_start, [tiles + 1]; bucket_tile; tile_order,
// [tiles].

#import shared/halt

// Buckets of the tiles before the workgroup's, of its own tiles; instances that the per-tile limit cuts; full tiles
// before the workgroup's times FULL_BEFORE, and its own.
alias ScanValue = vec4u;
const SCAN_WIDTH: u32 = 256u;
#import shared/workgroup_scan

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
@group(0) @binding(10) var<storage, read_write> tile_order: array<u32>;

var<workgroup> keys: array<u32, EMIT_BLOCK>;

fn tile_count() -> u32 {
    let size = views[step.view].tiles;
    return size.x * size.y * frame_count();
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
        // The key behind the end is larger than every tile.
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
    // Tiles that begin here; the last block also has the tiles behind the last instance.
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

// Returns the number of a tile's instances that are blended.
fn counted(instances: u32) -> u32 {
    return select(instances, min(instances, step.cap), step.cap > 0u);
}

// A tile is full if it has more than this multiple of the mean.
const FULL: u32 = 2u;
// More than the tiles of a workgroup.
const FULL_BEFORE: u32 = 512u;
// With more tiles than this, 65536 pixels square, the product above might overflow. Then no tile counts as full.
const FULL_TILES: u32 = 1u << 22u;

// Returns (0, buckets, instances cut, 1 if it is full) of a tile, where a full tile has more than `full`.
fn tile_item(tile: u32, full: u32) -> vec4u {
    let instances = tile_start[tile + 1u] - tile_start[tile];
    let blended = counted(instances);
    most_here = max(most_here, instances);
    let buckets = (blended + BUCKET - 1u) / BUCKET;
    return vec4u(0u, buckets, instances - blended, select(0u, 1u, blended > full));
}

// Most instances of a tile: in this invocation, and in all.
var<private> most_here: u32;
var<workgroup> most: atomic<u32>;
// First bucket of each of the workgroup's tiles, relative to the workgroup's first bucket.
var<workgroup> starts: array<u32, SCAN_WIDTH>;

@compute @workgroup_size(SCAN_WIDTH)
fn buckets(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let t = index_of(at);
    let tiles = tile_count();
    let first = group_number(id, dispatched) * SCAN_WIDTH;
    if first >= tiles {
        return;
    }
    // Without instances `gather` does not run. Then `tile_start` is from an earlier step. If `emit` has halted, the
    // output of this kernel is not read.
    let is_empty = state.instances == 0u;
    let tile = first + t;
    let full = select(0xffffffffu, state.instances / tiles * FULL, tiles <= FULL_TILES);
    var sum = vec4u();
    var is_full = false;
    if is_empty && tile < tiles {
        tile_start[tile] = 0u;
    }
    if !is_empty {
        for (var earlier = t; earlier < first; earlier += SCAN_WIDTH) {
            sum += tile_item(earlier, full).yxzw * vec4u(1u, 1u, 1u, FULL_BEFORE);
        }
        if tile < tiles {
            let own = tile_item(tile, full);
            is_full = own.w > 0u;
            sum += own;
        }
    }
    if t == 0u {
        atomicStore(&most, 0u);
    }
    let scanned = scan_of(sum, at);
    starts[t] = scanned.before.y;
    atomicMax(&most, most_here);
    workgroupBarrier();
    let base = scanned.total.x;
    let own = scanned.total.y;
    if tile < tiles {
        bucket_start[tile] = base + scanned.before.y;
        let full_before = scanned.total.w / FULL_BEFORE + scanned.before.w % FULL_BEFORE;
        let from_end = tiles - 1u - (tile - full_before);
        tile_order[select(from_end, full_before, is_full)] = tile;
    }
    // A render of several views has no backward pass and no buckets.
    let listed = select(own, 0u, step.frames > 0u);
    for (var bucket = t; bucket < listed && base + bucket < state.bucket_capacity; bucket += SCAN_WIDTH) {
        // The last tile that begins here or before: empty tiles come before the tile that has the bucket.
        var place = 0u;
        for (var half = SCAN_WIDTH / 2u; half > 0u; half /= 2u) {
            place += select(0u, half, starts[place + half] <= bucket);
        }
        bucket_tile[base + bucket] = first + place;
    }
    if t == 0u && first + SCAN_WIDTH >= tiles && state.halted == 0u {
        finish(tiles, base + own, scanned.total.z);
    }
}

// Writes the counts of all tiles. Called by one invocation.
fn finish(tiles: u32, sum: u32, cut: u32) {
    if state.instances == 0u {
        tile_start[tiles] = 0u;
    }
    if step.frames == 0u && sum > state.bucket_capacity {
        halt(HALT_BUCKETS, sum);
        return;
    }
    bucket_start[tiles] = sum;
    state.buckets = sum;
    state.cut_instances = cut;
    state.max_per_tile = atomicLoad(&most);
    groups[GROUPS_BUCKETS] = flat_groups(sum);
    groups[GROUPS_BUCKETS_PART] = groups_for(sum, DISPATCH_PARTS);
}
