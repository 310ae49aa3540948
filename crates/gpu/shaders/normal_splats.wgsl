// `normal_splats`, before the second blend of the loss of normals: the projected Gaussians again, with the normal of the
// plane as colour and its distance from the camera as depth. One invocation per Gaussian. Formulas:
// engine::features::normals. CPU version: cpu/src/features/normals/kernels.rs.
//
// Bindings: views, state, geometry; visible_rank: by Gaussian, 0 = invisible, or one more than its place; splats2d, by
// place; normal_splats out, like splats2d.

#import shared/step
#import shared/groups
#import shared/planes

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(4) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> normal_splats: array<vec4f>;

#import shared/centre
#import shared/geometry
#import shared/normal_plane

@compute @workgroup_size(256)
fn normal_splats_of(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || i >= state.gaussians {
        return;
    }
    let rank = visible_rank[i];
    if rank == 0u {
        return;
    }
    let view = views[step.view];
    let point = to_camera(geometry3(PLANE_MEAN, i, state.capacity), view);
    let quat = vec4f(
        geometry_at(PLANE_QUAT, i, state.capacity),
        geometry3(PLANE_QUAT + 1u, i, state.capacity),
    );
    let rotation = rotation_of(quat / sqrt(dot(quat, quat)));
    let log_scales = geometry3(PLANE_SCALE, i, state.capacity);
    let plane = normal_plane(log_scales, rotation, point, view);
    let at = 3u * (rank - 1u);
    normal_splats[at] = splats2d[at];
    normal_splats[at + 1u] = vec4f(splats2d[at + 1u].xy, plane.normal.xy);
    normal_splats[at + 2u] =
        vec4f(plane.normal.z, dot(plane.normal, point), splats2d[at + 2u].zw);
}
