// `frame_counts`: the counts of each view of a render of several, which `state` has for all of them. A workgroup a view.
//
// Bindings: views, state; group_visible, sums of the visible Gaussians before each workgroup of `project`; tile_start;
// frame_counts out, of which `blend` raises the lost transmittance.

#import shared/step
#import shared/struct_frame_counts

alias ScanValue = vec4u;
const SCAN_WIDTH: u32 = 256u;
#import shared/workgroup_scan

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> group_visible: array<u32>;
@group(0) @binding(3) var<storage, read> tile_start: array<u32>;
@group(0) @binding(4) var<storage, read_write> frame_counts: array<FrameCounts>;

var<workgroup> most: atomic<u32>;

// Returns the number of visible Gaussians of a workgroup of `project`.
fn visible_of(group: u32, groups: u32) -> u32 {
    var end = state.visible;
    if group + 1u < groups {
        end = group_visible[group + 1u];
    }
    return end - group_visible[group];
}

@compute @workgroup_size(SCAN_WIDTH)
fn counts(@builtin(workgroup_id) id: vec3u, at: Invocation) {
    let view = id.x;
    if view >= step.frames || state.halted != 0u {
        return;
    }
    let t = index_of(at);
    let groups = (state.gaussians + SCAN_WIDTH - 1u) / SCAN_WIDTH * step.frames;
    var sums = vec4u();
    for (var group = view + t * step.frames; group < groups; group += SCAN_WIDTH * step.frames) {
        sums.x += visible_of(group, groups);
    }
    let tiles = views[step.view].tiles.x * views[step.view].tiles.y;
    var fullest = 0u;
    for (var tile = t; tile < tiles; tile += SCAN_WIDTH) {
        let first = tile_start[view * tiles + tile];
        let instances = tile_start[view * tiles + tile + 1u] - first;
        fullest = max(fullest, instances);
        sums.y += instances;
        sums.z += select(0u, instances - min(instances, step.cap), step.cap > 0u);
    }
    if t == 0u {
        atomicStore(&most, 0u);
    }
    workgroupBarrier();
    atomicMax(&most, fullest);
    let total = scan_of(sums, at).total;
    workgroupBarrier();
    if t == 0u {
        var found: FrameCounts;
        found.visible = total.x;
        found.instances = total.y;
        found.max_per_tile = atomicLoad(&most);
        found.cut_instances = total.z;
        frame_counts[view] = found;
    }
}
