// The first dispatch of a step, one invocation: clears the step's counts and sizes the dispatches
// that are already known. Nothing runs while the engine is halted.
//
// Bindings: views; state, counts in and out; groups, the dispatches; visible_placed, the counter of
// `project`.

#import shared/halt

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read_write> state: State;
@group(0) @binding(2) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> visible_placed: array<u32, 1>;

@compute @workgroup_size(1)
fn begin() {
    state.visible = 0u;
    state.instances = 0u;
    state.buckets = 0u;
    state.max_per_tile = 0u;
    state.cut_instances = 0u;
    state.lost_transmittance = 0u;
    visible_placed[0] = 0u;
    clear_groups();
    if state.halted != 0u {
        return;
    }
    let size = views[step.view].tiles;
    let tiles = size.x * size.y * frame_count();
    groups[GROUPS_GAUSSIANS] = flat_groups((state.gaussians + 255u) / 256u * frame_count());
    groups[GROUPS_UPDATE] = groups_for(state.gaussians, UPDATE_THREADS);
    groups[GROUPS_PIXELS] = flat_groups(tiles);
    groups[GROUPS_PIXELS_PART] = groups_for(tiles, DISPATCH_PARTS);
}
