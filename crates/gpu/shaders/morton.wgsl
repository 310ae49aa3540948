// `morton`: sorts Gaussians in the order of a Z curve through their centres (Morton 1966), so that neighbours in space
// are neighbours in memory.
// 1. `open` sizes the dispatches and empties the bounding box, or halts if the scratch buffers are too small.
// 2. `bounds`: the box of all finite centres, except for the sky and frozen Gaussians. Floats are compared as integers in
//    the same order, so that atomics find the box in any order of execution.
// 3. `codes`: cells are cubes, 2^10 along the longest side at most; their edge is a power of two, so that no division
//    rounds. The bits of a centre's three cells interleave to 30. Non-finite centres follow; the sky and frozen
//    Gaussians come last, in their order.
// 4. A stable sort by code gives the source Gaussian of each place; gather.wgsl moves them.
//
// Bindings: geometry; state; groups (shared/regroup); box, least and largest x, y, z; sort_keys, the codes. Scratch is
// borrowed as in densify.wgsl.

#import shared/scratch
#import shared/planes
#import shared/regroup

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
// `groups`, bound for reading.
@group(0) @binding(2) var<storage, read> groups_read: array<vec4u>;
@group(0) @binding(3) var<storage, read> geometry: array<u32>;
@group(0) @binding(4) var<storage, read_write> box: array<atomic<u32>, 6>;
@group(0) @binding(5) var<storage, read_write> sort_keys: array<u32>;

const CELL_BITS: u32 = 10u;
const NOWHERE: u32 = 1u << (3u * CELL_BITS);
const KEPT: u32 = NOWHERE + 1u;

var<workgroup> part: array<atomic<u32>, 6>;

// Returns the bits of a float as an integer that sorts like the float.
fn ordered(word: u32) -> u32 {
    return word ^ select(0x80000000u, 0xffffffffu, (word >> 31u) != 0u);
}

fn float_of(order: u32) -> f32 {
    return bitcast<f32>(order ^ select(0xffffffffu, 0x80000000u, (order >> 31u) != 0u));
}

fn mean_words(i: u32) -> vec3u {
    let at = PLANE_MEAN * state.capacity + i;
    return vec3u(geometry[at], geometry[at + state.capacity], geometry[at + 2u * state.capacity]);
}

fn is_kept(i: u32) -> bool {
    return i < state.kept_end && i >= state.kept_end - state.kept;
}

fn is_finite(words: vec3u) -> bool {
    return all((words & vec3u(0x7f800000u)) != vec3u(0x7f800000u));
}

@compute @workgroup_size(1)
fn open() {
    for (var entry = STEP_ENTRIES; entry < ALL_ENTRIES; entry++) {
        groups[entry] = vec4u();
    }
    for (var k = 0u; k < 3u; k++) {
        atomicStore(&box[k], 0xffffffffu);
        atomicStore(&box[3u + k], 0u);
    }
    if has_scratch() {
        let count = state.gaussians;
        groups[REGROUP_NEW] = regroup_for(count, 256u);
        groups[REGROUP_SORT] = regroup_for(count, RADIX_BLOCK);
        // All Gaussians survive.
        groups[REGROUP_COUNTS] = vec4u(count, 0u, 0u, 0u);
    }
}

@compute @workgroup_size(256)
fn bounds(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    if lane < 6u {
        atomicStore(&part[lane], select(0u, 0xffffffffu, lane < 3u));
    }
    workgroupBarrier();
    let i = group_number(id, dispatched) * 256u + lane;
    if i < groups_read[REGROUP_NEW].w {
        let words = mean_words(i);
        if is_finite(words) && !is_kept(i) {
            for (var k = 0u; k < 3u; k++) {
                atomicMin(&part[k], ordered(words[k]));
                atomicMax(&part[3u + k], ordered(words[k]));
            }
        }
    }
    workgroupBarrier();
    if lane < 3u {
        atomicMin(&box[lane], atomicLoad(&part[lane]));
    } else if lane < 6u {
        atomicMax(&box[lane], atomicLoad(&part[lane]));
    }
}

// Returns the bits of x with two zeros between any two.
fn spread(x: u32) -> u32 {
    var s = x;
    s = (s | (s << 16u)) & 0x030000ffu;
    s = (s | (s << 8u)) & 0x0300f00fu;
    s = (s | (s << 4u)) & 0x030c30c3u;
    s = (s | (s << 2u)) & 0x09249249u;
    return s;
}

@compute @workgroup_size(256)
fn codes(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(id, dispatched) * 256u + lane;
    if i >= groups_read[REGROUP_NEW].w {
        return;
    }
    if is_kept(i) {
        sort_keys[i] = KEPT;
        return;
    }
    let words = mean_words(i);
    if !is_finite(words) {
        sort_keys[i] = NOWHERE;
        return;
    }
    // Quarters, so that the difference of the largest numbers stays finite.
    var least: vec3f;
    var longest = 0.0;
    for (var k = 0u; k < 3u; k++) {
        least[k] = 0.25 * float_of(atomicLoad(&box[k]));
        longest = max(longest, 0.25 * float_of(atomicLoad(&box[3u + k])) - least[k]);
    }
    // The longest side is less than 2^(exponent + 1): cells of 2^(exponent - 9), kept in the range of normal numbers.
    let exponent = clamp(i32(bitcast<u32>(longest) >> 23u) - 127, -110, 126);
    let cells = bitcast<f32>(u32(i32(CELL_BITS) - 1 - exponent + 127) << 23u);
    let cell = vec3u((0.25 * bitcast<vec3f>(words) - least) * cells);
    let inside = min(cell, vec3u((1u << CELL_BITS) - 1u));
    sort_keys[i] = spread(inside.x) | (spread(inside.y) << 1u) | (spread(inside.z) << 2u);
}
