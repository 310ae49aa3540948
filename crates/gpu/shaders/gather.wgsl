// `gather`: moves a Gaussian's words to its place in the new generation, a few planes at a time.
// 1. `gather`: place j of a plane gets the word of Gaussian gather_source[j], in scratch. New Gaussians have no
//    moments: their words are 0 if the batch sets clear_new.
// 2. `put_back`: copies scratch over the planes.
// Words are moved unchanged, whether they are one f32 or two numbers of sixteen bits.
//
// Bindings: gather_from and gather_to, the planes and scratch with a capacity of GATHER_PLANES planes (the slots of at
// least as many instances), or the reverse; gather_batch, the range of planes; gather_source; groups, the counts
// (shared/regroup); state, for the capacity.

#import shared/step
#import shared/regroup

struct Batch {
    // First plane, and the number of planes.
    first: u32,
    planes: u32,
    // Not 0: new Gaussians get zeros.
    clear_new: u32,
}

// Equal to `stages::gather::PLANES`.
const GATHER_PLANES: u32 = SLOT_FLOATS;

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> groups: array<vec4u>;
@group(0) @binding(2) var<uniform> gather_batch: Batch;
@group(0) @binding(3) var<storage, read> gather_source: array<u32>;
@group(0) @binding(4) var<storage, read> gather_from: array<u32>;
@group(0) @binding(5) var<storage, read_write> gather_to: array<u32>;

@compute @workgroup_size(256)
fn gather(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= groups[REGROUP_NEW].w {
        return;
    }
    let capacity = state.capacity;
    let source = gather_source[j];
    let at = gather_batch.first * capacity + (source & ~REGROUP_FRESH);
    let is_new = j >= groups[REGROUP_COUNTS].x || (source & REGROUP_FRESH) != 0u;
    let is_clear = gather_batch.clear_new != 0u && is_new;
    // All loads come first, so that they are in flight together.
    var words: array<u32, GATHER_PLANES>;
    for (var p = 0u; p < GATHER_PLANES; p++) {
        words[p] = 0u;
        if p < gather_batch.planes && !is_clear {
            words[p] = gather_from[p * capacity + at];
        }
    }
    for (var p = 0u; p < GATHER_PLANES; p++) {
        if p < gather_batch.planes {
            gather_to[p * capacity + j] = words[p];
        }
    }
}

@compute @workgroup_size(256)
fn put_back(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= groups[REGROUP_NEW].w {
        return;
    }
    let capacity = state.capacity;
    var words: array<u32, GATHER_PLANES>;
    for (var p = 0u; p < GATHER_PLANES; p++) {
        words[p] = 0u;
        if p < gather_batch.planes {
            words[p] = gather_from[p * capacity + j];
        }
    }
    for (var p = 0u; p < GATHER_PLANES; p++) {
        if p < gather_batch.planes {
            gather_to[(gather_batch.first + p) * capacity + j] = words[p];
        }
    }
}
