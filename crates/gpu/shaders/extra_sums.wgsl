// `extra_sums`, part of the stage `update` where density statistics are absolute or the loss reads depths: adds up the
// extra slots of each visible Gaussian, one invocation per Gaussian, in depth order and slot by slot.
// CPU version: `sum_absolute` and `sum_depths` of cpu/src/stages/update.rs. Reference:
// dapple_reference::{absolute_gradients, blend_backward}.
//
// In permutation SHARDED the sums go to the engines that hold the Gaussians, as in slot_sums.wgsl.
//
// Bindings: state; emit_starts, by rank, total last; depth_values, the place of a rank's Gaussian among the visible
// Gaussians; extra_slots, from blend_backward.wgsl; extra_gradients out: shared/extra_slots.

#import shared/step
#import shared/groups
#import shared/extra_slots

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> emit_starts: array<u32>;
@group(0) @binding(2) var<storage, read> depth_values: array<u32>;
@group(0) @binding(3) var<storage, read> extra_slots: array<f32>;
#if SHARDED
@group(0) @binding(4) var<storage, read_write> sums: array<f32>;
@group(0) @binding(5) var<storage, read> sum_places: array<u32>;
#else
@group(0) @binding(4) var<storage, read_write> extra_gradients: array<f32>;
#endif

@compute @workgroup_size(256)
fn extra_sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let rank = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || rank >= state.visible {
        return;
    }
    let first = emit_starts[rank];
    let end = emit_starts[rank + 1u];
    let c = depth_values[rank];
    for (var k = 0u; k < EXTRA_FLOATS; k++) {
        var sum = 0.0;
        for (var slot = first; slot < end; slot++) {
            sum += extra_slots[EXTRA_FLOATS * slot + k];
        }
#if SHARDED
        sums[sum_places[c] % SUM_PLACES + SLOT_FLOATS + k] = sum;
#else
        extra_gradients[k * state.visible_capacity + c] = sum;
#endif
    }
}
