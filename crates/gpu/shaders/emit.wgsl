// `emit`: writes one instance per (Gaussian, tile), Gaussians in depth order, a Gaussian's tiles row by row. An
// instance's place in that list is its gradient slot, so a Gaussian's slots are contiguous.
// 1. `sums`: each workgroup sums the tiles of 256 Gaussians of the depth order.
// 2. `total`, one workgroup: a prefix sum over those sums; the number of instances, and a halt if that exceeds the
//    capacity.
// 3. `starts`: the first instance of each Gaussian, and the Gaussian with the first instance of each block of
//    EMIT_BLOCK instances.
// 4. `list`: a workgroup per block of instances, for any sizes of the Gaussians. Gaussians cover from one tile to all
//    of them, and near Gaussians, which come first, cover most. With a workgroup per fixed number of Gaussians, the
//    first workgroups would run long after all others.
//    a. An invocation per Gaussian of the block walks the tile rows of the Gaussian and writes for each row's span a
//    head at its place in the block.
//    b. An invocation finds the last head before its instance, by bits, and counts on from it.
// CPU version: cpu/src/stages/emit.rs.
//
// Gaussians are numbered by their places among the visible Gaussians: see project.wgsl.
// Bindings: views, state, groups; tiles_touched, splats2d, by place, depth_values, the places by rank, in; emit_sums, a
// word per 256 Gaussians; emit_starts, by rank, total last; emit_blocks, by block, the rank that holds its first
// instance; instance_tile, instance_gaussian (places), by slot, out. In permutation CHOSEN_TILES, tiles_before, by tile,
// in: shared/tiles. In permutation FRAMES the tiles of each view have numbers after those of the view before.

#import shared/halt
#import shared/splat2d
#import shared/tiles

// Sums, and sums in units of 256 rounded up, which do not overflow where the plain sums do.
alias ScanValue = vec2u;
const SCAN_WIDTH: u32 = 256u;
#import shared/block_scan

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read_write> state: State;
@group(0) @binding(2) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(3) var<storage, read> tiles_touched: array<u32>;
@group(0) @binding(4) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(5) var<storage, read> depth_values: array<u32>;
@group(0) @binding(6) var<storage, read_write> emit_sums: array<u32>;
@group(0) @binding(7) var<storage, read_write> emit_starts: array<u32>;
@group(0) @binding(8) var<storage, read_write> emit_blocks: array<u32>;
@group(0) @binding(9) var<storage, read_write> instance_tile: array<u32>;
@group(0) @binding(10) var<storage, read_write> instance_gaussian: array<u32>;

#if CHOSEN_TILES
@group(0) @binding(11) var<storage, read> tiles_before: array<u32>;
#endif

const COARSE: u32 = 256u;
// 256 times this number still fits a word.
const MOST_TILES: u32 = 0xffffffu;
const MOST_INSTANCES: u32 = 0xffffffffu;

// Returns the number of tiles of the Gaussian in a place.
fn tiles_of(gaussian: u32) -> u32 {
#if FRAMES
    return tiles_touched[gaussian] & ((1u << FRAME_SHIFT) - 1u);
#else
    return tiles_touched[gaussian];
#endif
}

fn long_scan_item(i: u32) -> vec2u {
    let sum = emit_sums[i];
    return vec2u(sum, sum / COARSE + 1u);
}

fn long_scan_put(i: u32, before: vec2u) {
    emit_sums[i] = before.x;
}

@compute @workgroup_size(SCAN_WIDTH)
fn sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let rank = item_of(block, at);
    var tiles = 0u;
    if rank < state.visible {
        tiles = min(tiles_of(depth_values[rank]), MOST_TILES);
    }
    sum_block(block, state.visible, vec2u(tiles, 0u), at);
}

@compute @workgroup_size(SCAN_WIDTH)
fn total(at: Invocation) {
    let sum = scan_blocks(state.visible, at);
    if index_of(at) != 0u || state.halted != 0u {
        return;
    }
    let fits = sum.y <= MOST_INSTANCES / COARSE;
    let instances = select(MOST_INSTANCES, sum.x, fits);
    if instances > state.instance_capacity {
        halt(HALT_INSTANCES, instances);
        return;
    }
    state.instances = instances;
    emit_starts[state.visible] = instances;
    groups[GROUPS_SORT_INSTANCES] = groups_for(instances, RADIX_BLOCK);
    groups[GROUPS_EMIT] = groups_for(instances, EMIT_BLOCK);
}

@compute @workgroup_size(SCAN_WIDTH)
fn starts(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let rank = item_of(block, at);
    let is_there = rank < state.visible;
    var tiles = 0u;
    if is_there {
        tiles = tiles_of(depth_values[rank]);
    }
    let before = scan_of(vec2u(tiles, 0u), at).before.x;
    if !is_there {
        return;
    }
    let start = emit_sums[block] + before;
    emit_starts[rank] = start;
    let end = start + tiles;
    var listed = (start + EMIT_BLOCK - 1u) / EMIT_BLOCK;
    for (; listed * EMIT_BLOCK < end; listed++) {
        emit_blocks[listed] = rank;
    }
}

// A bit for each place of the block: 1 = the place is a head.
var<workgroup> is_head: array<atomic<u32>, EMIT_BLOCK / 32u>;
// At heads: the tile, and the Gaussian.
var<workgroup> head_tile: array<u32, EMIT_BLOCK>;
var<workgroup> head_gaussian: array<u32, EMIT_BLOCK>;

// Writes a head for the instances from `at` on, for those in the block from `first` on; there is at least one.
fn put_head(at: u32, first: u32, tile: u32, gaussian: u32) {
    let place = max(at, first) - first;
    head_tile[place] = tile + (place + first - at);
    head_gaussian[place] = gaussian;
    atomicOr(&is_head[place / 32u], 1u << (place % 32u));
}

// Runs step a for the Gaussian of a rank.
fn put_heads(rank: u32, first: u32) {
    let gaussian = depth_values[rank];
    var at = emit_starts[rank];
    let end = emit_starts[rank + 1u];
    let block_end = first + EMIT_BLOCK;
    let view = views[step.view];
    let tiles_in_view = view.tiles.x * view.tiles.y;
#if FRAMES
    let base = (tiles_touched[gaussian] >> FRAME_SHIFT) * tiles_in_view;
#else
    let base = 0u;
#endif
    let s0 = splats2d[3u * gaussian];
    let s1 = splats2d[3u * gaussian + 1u];
    let s2 = splats2d[3u * gaussian + 2u];
    let ellipse = ellipse_of(s0.xy, s0.z, s0.w, s1.x, s1.y, s2.zw, view);
    var tile = 0u;
#if RING
    for (var copy = 0u; copy < 2u; copy++) {
    let e = copy_of(ellipse, copy, view);
#else
    let e = ellipse;
#endif
    for (var row = e.first_row; row < e.end_row && at < min(end, block_end); row++) {
        let span = row_span(e, row);
#if CHOSEN_TILES
        tile = row * view.tiles.x + span.x;
        let span_end = tile + span.y;
        let chosen = chosen_in(row, span);
        if at + chosen <= first {
            tile = span_end;
            at += chosen;
        }
        // A head for each chosen tile, never more than `project` counted.
        for (; tile < span_end && at < min(end, block_end); tile++) {
            if tiles_before[tile + 1u] > tiles_before[tile] {
                if at >= first {
                    put_head(at, first, tile, gaussian);
                }
                at++;
            }
        }
#else
        // Never more than `project` counted.
        let count = min(span.y, end - at);
        if count > 0u {
            tile = row * view.tiles.x + span.x;
            if at + count > first {
                put_head(at, first, base + tile, gaussian);
            }
            tile += count;
            at += count;
        }
#endif
    }
#if RING
    }
#endif
    // Never less: a compiler that rounds differently here than in `project` may miss a tile that the ellipse barely
    // touches. A neighbouring tile, in which the Gaussian is invisible, takes its place.
    if at < min(end, block_end) {
        put_head(at, first, base + min(tile, tiles_in_view - 1u), gaussian);
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn list(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let block = group_number(id, dispatched);
    let first = block * EMIT_BLOCK;
    let end = min(first + EMIT_BLOCK, state.instances);
    for (var word = t; word < EMIT_BLOCK / 32u; word += SCAN_WIDTH) {
        atomicStore(&is_head[word], 0u);
    }
    workgroupBarrier();
    if first < end {
        var last_rank = state.visible - 1u;
        if end < state.instances {
            // The next block may begin with this rank, which then has no instance in this block.
            last_rank = emit_blocks[block + 1u];
        }
        for (var rank = emit_blocks[block] + t; rank <= last_rank; rank += SCAN_WIDTH) {
            if emit_starts[rank] < end {
                put_heads(rank, first);
            }
        }
    }
    workgroupBarrier();
    let last_tile = views[step.view].tiles.x * views[step.view].tiles.y * frame_count() - 1u;
    for (var place = t; first + place < end; place += SCAN_WIDTH) {
        var word = place / 32u;
        var heads = atomicLoad(&is_head[word]) & (0xffffffffu >> (31u - place % 32u));
        while heads == 0u && word > 0u {
            word--;
            heads = atomicLoad(&is_head[word]);
        }
        let head = word * 32u + firstLeadingBit(max(heads, 1u));
        instance_tile[first + place] = min(head_tile[head] + place - head, last_tile);
        instance_gaussian[first + place] = head_gaussian[head];
    }
}
