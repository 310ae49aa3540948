// `copies`: numbers of Gaussians between engines that hold parts of a model (dapple_engine::sharded), in rounds of
// relocation. `copies`, a shipment, has planes like the tensors of the state, one after the other, of `part.x` words each.
// 1. In the engine that holds the Gaussians: `take` copies the planes of one tensor.
// 2. In the engine that holds the places: `put`.
// 3. `clear`: zeros, for moments.
//
// Bindings: state, for the capacity; part (number of Gaussians, planes of the tensor, planes before them in `copies`,
// words from one index in `listed` to the next); listed, indices of the Gaussians; copied_from and copied_to, the tensor
// and `copies`, or the reverse.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<uniform> part: vec4u;
@group(0) @binding(2) var<storage, read> listed: array<u32>;
@group(0) @binding(3) var<storage, read> copied_from: array<u32>;
@group(0) @binding(4) var<storage, read_write> copied_to: array<u32>;

@compute @workgroup_size(256)
fn take(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= part.x {
        return;
    }
    let i = listed[j * part.w];
    for (var p = 0u; p < part.y; p++) {
        copied_to[(part.z + p) * part.x + j] = copied_from[p * state.capacity + i];
    }
}

@compute @workgroup_size(256)
fn put(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= part.x {
        return;
    }
    let i = listed[j * part.w];
    for (var p = 0u; p < part.y; p++) {
        copied_to[p * state.capacity + i] = copied_from[(part.z + p) * part.x + j];
    }
}

@compute @workgroup_size(256)
fn clear(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= part.x {
        return;
    }
    let i = listed[j * part.w];
    for (var p = 0u; p < part.y; p++) {
        copied_to[p * state.capacity + i] = 0u;
    }
}
