// `normal_sums`, after the second `slot_sums`: adds up the derivatives by the distance of the plane of each visible
// Gaussian, one invocation per Gaussian, in depth order and slot by slot. They are the tenth plane of normal_gradients,
// whose first nine are the sums of gradient slots.
//
// Bindings: state; emit_starts, by rank, total last; depth_values, the place of a rank's Gaussian among the visible
// Gaussians; normal_slots, from blend_backward.wgsl; normal_gradients out.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> emit_starts: array<u32>;
@group(0) @binding(2) var<storage, read> depth_values: array<u32>;
@group(0) @binding(3) var<storage, read> normal_slots: array<f32>;
@group(0) @binding(4) var<storage, read_write> normal_gradients: array<f32>;

@compute @workgroup_size(256)
fn normal_sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let rank = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || rank >= state.visible {
        return;
    }
    var sum = 0.0;
    for (var slot = emit_starts[rank]; slot < emit_starts[rank + 1u]; slot++) {
        sum += normal_slots[slot];
    }
    normal_gradients[SLOT_FLOATS * state.visible_capacity + depth_values[rank]] = sum;
}
