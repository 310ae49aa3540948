// `filter_3d`: sets each Gaussian's 3D filter from the training views, before a step that requests it
// (engine::filter_3d; Yu et al. 2024, arXiv:2311.16493). One invocation per Gaussian:
// 1. A panorama counts beyond its near plane. Another view counts if the centre is in front of its near plane and inside its frame, enlarged by SMOOTHING_MARGIN on
//    each side. Over these views: the highest rate of samples per world unit, focal length / depth.
// 2. The standard deviation is DEVIATION_PER_INTERVAL / rate; 0 where no view sees the Gaussian.
// CPU version: `deviations` in cpu/src/antialias.rs. Reference: dapple_reference::deviation.
//
// Bindings: views, the first of which is that of renders; state; geometry; filter_3d out.

#import shared/step
#import shared/groups
#import shared/planes
#import shared/centre

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read_write> filter_3d: array<f32>;

fn sampling_rate(mean: vec3f, view: View) -> f32 {
    let point = to_camera(mean, view);
    let is_ring = view.is_ring != 0u;
    let weighted = vec3f(point.x, view.depth_height * point.y, point.z);
    let depth = select(point.z, sqrt(dot(weighted, weighted)), is_ring);
    if !(depth >= step.near && depth > 0.0) {
        return 0.0;
    }
    // On a ring every column is inside, and so is every sine of a latitude.
    let place = (point.xy / depth * view.focal + view.principal) / vec2f(view.size);
    let is_inside = (is_ring || place.x >= -SMOOTHING_MARGIN && place.x <= 1.0 + SMOOTHING_MARGIN)
        && place.y >= -SMOOTHING_MARGIN && place.y <= 1.0 + SMOOTHING_MARGIN;
    return select(0.0, max(view.focal.x, view.focal.y) / depth, is_inside);
}

@compute @workgroup_size(256)
fn filter_3d_of_views(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || i >= state.gaussians {
        return;
    }
    let at = PLANE_MEAN * state.capacity + i;
    let mean = vec3f(geometry[at], geometry[at + state.capacity], geometry[at + 2u * state.capacity]);
    var rate = 0.0;
    for (var v = 1u; v < arrayLength(&views); v++) {
        rate = max(rate, sampling_rate(mean, views[v]));
    }
    filter_3d[i] = select(0.0, DEVIATION_PER_INTERVAL / rate, rate > 0.0);
}
