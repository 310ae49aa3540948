// One pass of a stable radix sort of (u32 key, u32 value) pairs by RADIX_BITS bits of the key. The count is in a GPU
// buffer. Three dispatches per pass, least significant digits first:
// 1. `histogram`: each workgroup counts the digits of a block of RADIX_BLOCK keys.
// 2. `digits`: one workgroup per digit scans the counts of the digit over the blocks, and writes their sum.
// 3. `scatter`: each workgroup ranks the keys of its block and moves the pairs:
//    a. A subgroup reads keys in order, one per lane. Ballots tell a lane which lanes have the same digit, and the
//       first of these lanes counts them all in the histogram of the subgroup.
//    b. A scan over the digits turns histograms into positions in the block and in the output.
//    c. Pairs are ordered in shared memory, so that pairs with neighbouring destinations are written together. Satish,
//       Harris & Garland, "Designing Efficient Sorting Algorithms for Manycore GPUs" (2009); ballots as in Ashkiani et
//       al., "GPU Multisplit" (2016). Blocks exchange data in `digits` only: the order in which workgroups run changes
//       nothing, and no workgroup waits for another.
//
// Bindings: radix_keys, radix_values to radix_keys_out, radix_values_out; radix_scratch, the totals of the digits, then
// their counts, [digit][block]; radix_count, the buffer that holds the count, at word radix_pass.count_word.
// Permutations: IOTA, values are the positions of the pairs before the sort; WIDE_SUBGROUPS, more than 32 lanes;
// without SUBGROUPS, lanes of "subgroups" of 32 communicate through shared memory.

#import shared/flat_groups

alias ScanValue = vec2u;
const SCAN_WIDTH: u32 = RADIX_THREADS;
#import shared/long_scan

const DIGITS: u32 = 1u << RADIX_BITS;
const SUBGROUPS_COUNT: u32 = RADIX_THREADS / SUBGROUP_SIZE;
// Pairs per invocation.
const PAIRS: u32 = RADIX_BLOCK / RADIX_THREADS;
// Digits per invocation.
const DIGITS_EACH: u32 = (DIGITS + RADIX_THREADS - 1u) / RADIX_THREADS;

struct Pass {
    // First bit of the digit.
    shift: u32,
    // Word of radix_count that holds the count.
    count_word: u32,
}

@group(0) @binding(0) var<storage, read> radix_count: array<u32>;
@group(0) @binding(1) var<uniform> radix_pass: Pass;
@group(0) @binding(2) var<storage, read> radix_keys: array<u32>;
@group(0) @binding(3) var<storage, read> radix_values: array<u32>;
@group(0) @binding(4) var<storage, read_write> radix_keys_out: array<u32>;
@group(0) @binding(5) var<storage, read_write> radix_values_out: array<u32>;
@group(0) @binding(6) var<storage, read_write> radix_scratch: array<u32>;

// Counts by subgroup and digit, then positions within the block.
var<workgroup> counts: array<atomic<u32>, SUBGROUPS_COUNT * DIGITS>;
// Position in the output minus position in the block, by digit (modulo 2^32).
var<workgroup> moves: array<u32, DIGITS>;

fn digit_of(key: u32) -> u32 {
    return (key >> radix_pass.shift) & (DIGITS - 1u);
}

fn blocks_of(count: u32) -> u32 {
    return (count + RADIX_BLOCK - 1u) / RADIX_BLOCK;
}

@compute @workgroup_size(RADIX_THREADS)
fn histogram(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let count = radix_count[radix_pass.count_word];
    let blocks = blocks_of(count);
    let block = group_number(id, dispatched);
    if block >= blocks {
        return;
    }
    // All loads first, so that they are in flight together.
    var keys: array<u32, PAIRS>;
    for (var k = 0u; k < PAIRS; k++) {
        let i = block * RADIX_BLOCK + k * RADIX_THREADS + t;
        keys[k] = 0u;
        if i < count {
            keys[k] = radix_keys[i];
        }
    }
    for (var d = t; d < DIGITS; d += RADIX_THREADS) {
        atomicStore(&counts[d], 0u);
    }
    workgroupBarrier();
    for (var k = 0u; k < PAIRS; k++) {
        if block * RADIX_BLOCK + k * RADIX_THREADS + t < count {
            atomicAdd(&counts[digit_of(keys[k])], 1u);
        }
    }
    workgroupBarrier();
    for (var d = t; d < DIGITS; d += RADIX_THREADS) {
        radix_scratch[DIGITS + d * blocks + block] = atomicLoad(&counts[d]);
    }
}

// Offset of the counts of a digit.
var<private> row: u32;

fn long_scan_item(i: u32) -> vec2u {
    return vec2u(radix_scratch[row + i], 0u);
}

fn long_scan_put(i: u32, before: vec2u) {
    radix_scratch[row + i] = before.x;
}

@compute @workgroup_size(RADIX_THREADS)
fn digits(
    @builtin(workgroup_id) id: vec3u,
    at: Invocation,
) {
    let group = group_of(at);
    let lane = lane_of(at);
    let t = group * SUBGROUP_SIZE + lane;
    let blocks = blocks_of(radix_count[radix_pass.count_word]);
    row = DIGITS + id.x * blocks;
    let total = long_scan(blocks, group, lane).x;
    if t == 0u {
        radix_scratch[id.x] = total;
    }
}

#if SUBGROUPS
// Pairs during the exchange.
var<workgroup> exchange: array<u32, RADIX_BLOCK>;

fn put(i: u32, value: u32) {
    exchange[i] = value;
}

fn take(i: u32) -> u32 {
    return exchange[i];
}

// Returns the number of earlier keys of this subgroup with this digit. All lanes call it at once. The shuffle needs the
// result of the atomic, so no lane reaches its next key before the leader has counted this one.
fn rank_of(digit: u32, group: u32, lane: u32) -> u32 {
#if WIDE_SUBGROUPS
    var peers = vec2u(0xffffffffu, select(0u, 0xffffffffu, SUBGROUP_SIZE > 32u));
    for (var bit = 0u; bit < RADIX_BITS; bit++) {
        let is_set = ((digit >> bit) & 1u) != 0u;
        let voted = subgroupBallot(is_set).xy;
        peers &= select(~voted, voted, is_set);
    }
    // Lanes that do not exist have never voted.
    peers &= subgroupBallot(true).xy;
    let earlier = select(
        vec2u((1u << (lane & 31u)) - 1u, 0u),
        vec2u(0xffffffffu, (1u << (lane & 31u)) - 1u),
        lane >= 32u,
    );
    let leader = select(firstTrailingBit(peers.x), 32u + firstTrailingBit(peers.y), peers.x == 0u);
    let size = countOneBits(peers.x) + countOneBits(peers.y);
    let below = countOneBits(peers.x & earlier.x) + countOneBits(peers.y & earlier.y);
#else
    var peers = 0xffffffffu >> (32u - SUBGROUP_SIZE);
    for (var bit = 0u; bit < RADIX_BITS; bit++) {
        let is_set = ((digit >> bit) & 1u) != 0u;
        let voted = subgroupBallot(is_set).x;
        peers &= select(~voted, voted, is_set);
    }
    let leader = firstTrailingBit(peers);
    let size = countOneBits(peers);
    let below = countOneBits(peers & ((1u << lane) - 1u));
#endif
    var before = 0u;
    if lane == leader {
        before = atomicAdd(&counts[group * DIGITS + digit], size);
    }
    return subgroupShuffle(before, leader) + below;
}
#else
// Masks of lanes by group and digit while ranking, then pairs during the exchange.
const EXCHANGE: u32 = max(RADIX_BLOCK, SUBGROUPS_COUNT * DIGITS);
var<workgroup> exchange: array<atomic<u32>, EXCHANGE>;

fn put(i: u32, value: u32) {
    atomicStore(&exchange[i], value);
}

fn take(i: u32) -> u32 {
    return atomicLoad(&exchange[i]);
}

// Returns the number of earlier keys of this group of 32 with this digit. Uniform control flow only; all masks are 0
// before and after.
fn rank_of(digit: u32, group: u32, lane: u32) -> u32 {
    let slot = group * DIGITS + digit;
    atomicOr(&exchange[slot], 1u << lane);
    workgroupBarrier();
    let peers = atomicLoad(&exchange[slot]);
    let rank = atomicLoad(&counts[slot]) + countOneBits(peers & ((1u << lane) - 1u));
    workgroupBarrier();
    if lane == firstTrailingBit(peers) {
        atomicAdd(&counts[slot], countOneBits(peers));
        atomicStore(&exchange[slot], 0u);
    }
    workgroupBarrier();
    return rank;
}
#endif

// Step b. On entry `counts` holds the digits of each subgroup. On return `counts` holds the position in the block at
// which the keys of a digit begin for each subgroup, and `moves` is filled.
fn place_digits(block: u32, blocks: u32, group: u32, lane: u32) {
    let t = group * SUBGROUP_SIZE + lane;
    // Pairs by digit: before this block in the output, in the whole output, in this block.
    var earlier: array<u32, DIGITS_EACH>;
    var totals: array<u32, DIGITS_EACH>;
    for (var j = 0u; j < DIGITS_EACH; j++) {
        let d = t * DIGITS_EACH + j;
        earlier[j] = 0u;
        totals[j] = 0u;
        if d < DIGITS {
            earlier[j] = radix_scratch[DIGITS + d * blocks + block];
            totals[j] = radix_scratch[d];
        }
    }
    workgroupBarrier();
    var sum = vec2u();
    for (var j = 0u; j < DIGITS_EACH; j++) {
        let d = t * DIGITS_EACH + j;
        if d < DIGITS {
            for (var g = 0u; g < SUBGROUPS_COUNT; g++) {
                sum.x += atomicLoad(&counts[g * DIGITS + d]);
            }
        }
        sum.y += totals[j];
    }
    var at = workgroup_scan(sum, group, lane).before;
    for (var j = 0u; j < DIGITS_EACH; j++) {
        let d = t * DIGITS_EACH + j;
        if d < DIGITS {
            moves[d] = at.y + earlier[j] - at.x;
            for (var g = 0u; g < SUBGROUPS_COUNT; g++) {
                let slot = g * DIGITS + d;
                let size = atomicLoad(&counts[slot]);
                atomicStore(&counts[slot], at.x);
                at.x += size;
            }
        }
        at.y += totals[j];
    }
    workgroupBarrier();
}

@compute @workgroup_size(RADIX_THREADS)
fn scatter(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let group = group_of(at);
    let lane = lane_of(at);
    let t = group * SUBGROUP_SIZE + lane;
    let count = radix_count[radix_pass.count_word];
    let blocks = blocks_of(count);
    let block = group_number(id, dispatched);
    if block >= blocks {
        return;
    }
    let first = block * RADIX_BLOCK;
    // Keys of a subgroup are contiguous, keys of a lane SUBGROUP_SIZE apart. Keys beyond the end get the value that
    // comes last in the block for every digit.
    var keys: array<u32, PAIRS>;
    var values: array<u32, PAIRS>;
    for (var k = 0u; k < PAIRS; k++) {
        let i = first + (group * PAIRS + k) * SUBGROUP_SIZE + lane;
        keys[k] = 0xffffffffu;
        values[k] = i;
        if i < count {
            keys[k] = radix_keys[i];
#if !IOTA
            values[k] = radix_values[i];
#endif
        }
    }
    for (var i = t; i < SUBGROUPS_COUNT * DIGITS; i += RADIX_THREADS) {
        atomicStore(&counts[i], 0u);
#if !SUBGROUPS
        put(i, 0u);
#endif
    }
    workgroupBarrier();
    var places: array<u32, PAIRS>;
    for (var k = 0u; k < PAIRS; k++) {
        places[k] = rank_of(digit_of(keys[k]), group, lane);
    }
    place_digits(block, blocks, group, lane);
    for (var k = 0u; k < PAIRS; k++) {
        places[k] += atomicLoad(&counts[group * DIGITS + digit_of(keys[k])]);
        put(places[k], keys[k]);
    }
    workgroupBarrier();
    var targets: array<u32, PAIRS>;
    for (var k = 0u; k < PAIRS; k++) {
        let i = k * RADIX_THREADS + t;
        let key = take(i);
        targets[k] = moves[digit_of(key)] + i;
        if first + i < count {
            radix_keys_out[targets[k]] = key;
        }
    }
    workgroupBarrier();
    for (var k = 0u; k < PAIRS; k++) {
        put(places[k], values[k]);
    }
    workgroupBarrier();
    for (var k = 0u; k < PAIRS; k++) {
        let i = k * RADIX_THREADS + t;
        if first + i < count {
            radix_values_out[targets[k]] = take(i);
        }
    }
}
