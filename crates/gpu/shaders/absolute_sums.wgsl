// `absolute_sums`, part of the stage `update` where density statistics are absolute: adds up the absolute
// slots of each visible Gaussian, one invocation a Gaussian, in depth order and slot by slot.
// Twin: `sum_absolute` of cpu/src/stages/update.rs. Reference: engine::reference::absolute_gradients.
//
// Bindings: state; emit_starts, by rank, total last; depth_values, the place of a rank's Gaussian among
// the visible ones; absolute_slots, from blend_backward.wgsl; absolute_gradients out, by place: axis k at
// [k * visible_capacity + place].

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> emit_starts: array<u32>;
@group(0) @binding(2) var<storage, read> depth_values: array<u32>;
@group(0) @binding(3) var<storage, read> absolute_slots: array<f32>;
@group(0) @binding(4) var<storage, read_write> absolute_gradients: array<f32>;

@compute @workgroup_size(256)
fn absolute_sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let rank = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || rank >= state.visible {
        return;
    }
    let end = emit_starts[rank + 1u];
    var sum = vec2f();
    for (var slot = emit_starts[rank]; slot < end; slot++) {
        sum += vec2f(absolute_slots[2u * slot], absolute_slots[2u * slot + 1u]);
    }
    let c = depth_values[rank];
    absolute_gradients[c] = sum.x;
    absolute_gradients[state.visible_capacity + c] = sum.y;
}
