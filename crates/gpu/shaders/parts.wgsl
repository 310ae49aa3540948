// `parts`: the visible Gaussians of a view, between engines that hold parts of a model
// (dapple_engine::sharded). `shown`, a shipment of one part, has SHOWN_HEAD words: for each block of the part the visible
// Gaussians before it, and at PART_BLOCKS their number. Then come SHOWN_WORDS words for each, in order of index: the index
// in the part, the number of tiles, and the twelve numbers of splats2d. `sums` has SUM_WORDS words for each: the fields of a
// gradient slot, then those of extra slots.
// 1. In the engine that holds the Gaussians, after `project` and the prefix sum of `order`: `send` writes `shown`.
// 2. In the engine that renders the view: `open` takes the number of Gaussians of all parts, `find_blocks` finds the
//    places of blocks from the heads of all parts, and `receive`, for each part, writes what `project` and `order` write.
//    The places of visible Gaussians are in order of index in the model, as in one engine.
// 3. There, `slot_sums` and `extra_sums` write `sums` of all parts, each in the order of `shown`.
// 4. In the engine that holds the Gaussians again, before `update` and in the first step of a batch: `open`,
//    `clear_places` and `restore` write what `project` and `slot_sums` write for them, with places in the order of `shown`.
//    In later steps of a batch `add_rows` of gradients.wgsl reads `sums` themselves, and indices behind the rows of `shown`,
//    which do not travel.
//
// Bindings: state, groups; group_visible, sums before each workgroup of `project`; part (number of the part, its
// visible Gaussians, number of parts, first word of its sums among those of all parts, or of the indices in `shown`);
// shown; part_heads, the heads of all parts; block_places, by block of the model: what to add to a place in a part;
// visible_rank, splats2d, tiles_touched; depth_keys, depth_values; splat_gradients, and in permutation EXTRA_SLOTS
// extra_gradients; sums; sum_places, by place: the word where its sums begin, and above it three bits for clamped
// channels, which have no gradient.

#import shared/halt

alias ScanValue = u32;
const SCAN_WIDTH: u32 = 256u;
#import shared/workgroup_scan

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(2) var<storage, read> group_visible: array<u32>;
@group(0) @binding(3) var<uniform> part: vec4u;
@group(0) @binding(4) var<storage, read_write> shown: array<u32>;
@group(0) @binding(5) var<storage, read_write> visible_rank: array<u32>;
@group(0) @binding(6) var<storage, read_write> splats2d: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> tiles_touched: array<u32>;
@group(0) @binding(8) var<storage, read_write> depth_keys: array<u32>;
@group(0) @binding(9) var<storage, read_write> depth_values: array<u32>;

@group(0) @binding(10) var<storage, read_write> splat_gradients: array<f32>;
@group(0) @binding(11) var<storage, read_write> sums: array<f32>;
@group(0) @binding(13) var<storage, read> part_heads: array<u32>;
@group(0) @binding(14) var<storage, read_write> block_places: array<u32>;
#if EXTRA_SLOTS
@group(0) @binding(12) var<storage, read_write> extra_gradients: array<f32>;
#endif
@group(0) @binding(15) var<storage, read_write> sum_places: array<u32>;

#import shared/sum_words

// Blocks of the model for each invocation of `find_blocks`.
const BLOCKS_EACH: u32 = (PART_BLOCKS + SCAN_WIDTH - 1u) / SCAN_WIDTH;

// Place of the numbers of splats2d among the words of a Gaussian in `shown`.
const SPLAT_AT: u32 = 2u;

// Rows of the Gaussians of a workgroup: memory is read and written in order, rows one by one.
var<workgroup> rows: array<u32, SCAN_WIDTH * SHOWN_WORDS>;

fn put_part(at: u32, value: vec4f) {
    let bits = bitcast<vec4u>(value);
    rows[at] = bits.x;
    rows[at + 1u] = bits.y;
    rows[at + 2u] = bits.z;
    rows[at + 3u] = bits.w;
}

fn row_part(at: u32) -> vec4f {
    return bitcast<vec4f>(vec4u(rows[at], rows[at + 1u], rows[at + 2u], rows[at + 3u]));
}

@compute @workgroup_size(SCAN_WIDTH)
fn send(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let i = block * SCAN_WIDTH + index_of(at);
    var rank = 0u;
    if i < state.gaussians && state.halted == 0u {
        rank = visible_rank[i];
    }
    let scanned = scan_of(select(0u, 1u, rank > 0u), at);
    if i < state.gaussians && i % state.block == 0u {
        shown[i / state.block] = group_visible[block] + scanned.before;
    }
    if i == 0u {
        shown[PART_BLOCKS] = state.visible;
    }
    if rank > 0u {
        let row = SHOWN_WORDS * scanned.before;
        let c = rank - 1u;
        rows[row] = i;
        let index_at = part.w + group_visible[block] + scanned.before;
        if index_at < arrayLength(&shown) {
            shown[index_at] = i;
        }
        rows[row + 1u] = tiles_touched[c];
        for (var p = 0u; p < 3u; p++) {
            put_part(row + SPLAT_AT + 4u * p, splats2d[3u * c + p]);
        }
    }
    workgroupBarrier();
    let words = SHOWN_WORDS * scanned.total;
    if words > 0u {
        let first = SHOWN_HEAD + SHOWN_WORDS * group_visible[block];
        for (var w = index_of(at); w < words; w += SCAN_WIDTH) {
            // The host did not know the number of Gaussians, and repeats a shipment that was too short.
            if first + w < part.w {
                shown[first + w] = rows[w];
            }
        }
    }
}

@compute @workgroup_size(1)
fn open() {
    let visible = step.shown;
    if state.halted != 0u {
        return;
    }
    if visible > state.visible_capacity {
        halt(HALT_VISIBLE, visible);
        return;
    }
    state.visible = visible;
    groups[GROUPS_VISIBLE] = groups_for(visible, 256u);
    groups[GROUPS_SLOT_SUMS] = groups_for(visible, SLOT_SUMS_GAUSSIANS);
    groups[GROUPS_SORT_VISIBLE] = groups_for(visible, RADIX_BLOCK);
}

@compute @workgroup_size(SCAN_WIDTH)
fn find_blocks(at: Invocation) {
    let first = index_of(at) * BLOCKS_EACH;
    var counts = array<u32, BLOCKS_EACH>();
    var starts = array<u32, BLOCKS_EACH>();
    var sum = 0u;
    for (var k = 0u; k < BLOCKS_EACH; k++) {
        let shown_of = shown_of_block(first + k);
        starts[k] = shown_of.x;
        counts[k] = shown_of.y;
        sum += shown_of.y;
    }
    var place = scan_of(sum, at).before;
    for (var k = 0u; k < BLOCKS_EACH; k++) {
        if first + k < PART_BLOCKS {
            // May wrap around; so does the sum of it and the place in the part.
            block_places[first + k] = place - starts[k];
        }
        place += counts[k];
    }
}

// Returns the visible Gaussians before a block in its part, and those of the block.
fn shown_of_block(block: u32) -> vec2u {
    let engines = state.skipped / state.block + 1u;
    let blocks = (state.gaussians + state.others + state.block - 1u) / state.block;
    if block >= min(blocks, PART_BLOCKS) {
        return vec2u();
    }
    let head = SHOWN_HEAD * (block % engines);
    let own = block / engines;
    let next = select(PART_BLOCKS, own + 1u, block + engines < blocks);
    let before = part_heads[head + own];
    return vec2u(before, part_heads[head + next] - before);
}

// Returns the place among the visible Gaussians of all parts of Gaussian `i` of this part, the k-th visible one.
fn place_of(i: u32, k: u32) -> u32 {
    let block = i / state.block * part.z + part.x;
    return block_places[min(block, PART_BLOCKS - 1u)] + k;
}

// Returns the number of a workgroup's Gaussians of this part, of which the first is the `first` visible one.
fn gaussians_from(first: u32) -> u32 {
    return min(part.y - min(first, part.y), SCAN_WIDTH);
}

fn load_shown(first: u32, local: u32) {
    let words = SHOWN_WORDS * gaussians_from(first);
    for (var w = local; w < words; w += SCAN_WIDTH) {
        rows[w] = shown[SHOWN_HEAD + SHOWN_WORDS * first + w];
    }
}

fn put_splat(place: u32, row: u32) {
    for (var p = 0u; p < 3u; p++) {
        splats2d[3u * place + p] = row_part(row + SPLAT_AT + 4u * p);
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn receive(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = group_number(id, dispatched) * SCAN_WIDTH;
    load_shown(first, local);
    workgroupBarrier();
    if local >= gaussians_from(first) || state.halted != 0u {
        return;
    }
    let row = SHOWN_WORDS * local;
    let place = place_of(rows[row], first + local);
    if place >= state.visible {
        return;
    }
    put_splat(place, row);
    tiles_touched[place] = rows[row + 1u];
    // The depth is number 9 of splats2d.
    depth_keys[place] = rows[row + SPLAT_AT + 9u];
    depth_values[place] = place;
    // The signs of colours, which mark clamped channels.
    let signs = vec3u(rows[row + SPLAT_AT + 6u], rows[row + SPLAT_AT + 7u], rows[row + SPLAT_AT + 8u]) >> vec3u(31u);
    let clamped = signs.x | signs.y << 1u | signs.z << 2u;
    sum_places[place] = (part.w + SUM_WORDS * (first + local)) | clamped * SUM_PLACES;
}

@compute @workgroup_size(256)
fn clear_places(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if i < state.gaussians {
        visible_rank[i] = 0u;
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn restore(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = group_number(id, dispatched) * SCAN_WIDTH;
    load_shown(first, local);
    workgroupBarrier();
    let place = first + local;
    let is_there = local < gaussians_from(first);
    if is_there {
        let row = SHOWN_WORDS * local;
        // `update` reads the colour alone.
        for (var p = 1u; p < 3u; p++) {
            splats2d[3u * place + p] = row_part(row + SPLAT_AT + 4u * p);
        }
        let i = rows[row];
        if i < state.gaussians {
            visible_rank[i] = place + 1u;
        }
    }
    workgroupBarrier();
    let words = SUM_WORDS * gaussians_from(first);
    for (var w = local; w < words; w += SCAN_WIDTH) {
        rows[w] = bitcast<u32>(sums[SUM_WORDS * first + w]);
    }
    workgroupBarrier();
    if !is_there {
        return;
    }
    let row = SUM_WORDS * local;
    for (var f = 0u; f < SLOT_FLOATS; f++) {
        splat_gradients[f * state.visible_capacity + place] = bitcast<f32>(rows[row + f]);
    }
#if EXTRA_SLOTS
    for (var f = 0u; f < EXTRA_FLOATS; f++) {
        extra_gradients[f * state.visible_capacity + place] =
            bitcast<f32>(rows[row + SLOT_FLOATS + f]);
    }
#endif
}
