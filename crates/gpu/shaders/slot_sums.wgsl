// `slot_sums`, first part of the stage `update`: adds up the slots of each visible Gaussian. One
// invocation a Gaussian, in depth order, where the slots of neighbours lie side by side: a kernel of its
// own, because in order of index the visible ones come in clusters, some with thousands of slots, and
// because adding needs shared memory and barriers that the step of the parameters is quicker without.
// 1. A Gaussian's slots begin where `emit` says and end where those of the next begin.
// 2. Add them up in a fixed order: shared/slots.
// 3. Leave the nine sums at the Gaussian's place: shared/slot_sums.
//
// Bindings: state; emit_starts, by rank, total last; depth_values, the place of a rank's Gaussian among
// the visible ones; slots; splat_gradients out, by place.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> emit_starts: array<u32>;
@group(0) @binding(2) var<storage, read> depth_values: array<u32>;
@group(0) @binding(3) var<storage, read> slots: array<f32>;
@group(0) @binding(4) var<storage, read_write> splat_gradients: array<f32>;

#import shared/slot_sums
#import shared/slots

fn store_three(field: u32, c: u32, sums: vec3f) {
    let stride = state.visible_capacity;
    let at = field * stride + c;
    splat_gradients[at] = sums.x;
    splat_gradients[at + stride] = sums.y;
    splat_gradients[at + 2u * stride] = sums.z;
}

@compute @workgroup_size(256)
fn slot_sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = group_number(id, dispatched) * 256u;
    if state.halted != 0u || first >= state.visible {
        return;
    }
    let rank = first + local;
    var start = 0u;
    var count = 0u;
    if rank < state.visible {
        start = emit_starts[rank];
        count = emit_starts[rank + 1u] - start;
    }
    let sums = sum_slots(local, start, count);
    if rank < state.visible {
        let c = depth_values[rank];
        store_three(0u, c, sums.linear);
        store_three(3u, c, sums.quadratic);
        store_three(6u, c, sums.colour);
    }
}
