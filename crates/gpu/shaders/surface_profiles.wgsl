// `surface_profiles`: the extent of each visible Gaussian along the rays of its pixels, for surface.wgsl. Runs after
// `blend`, in renders with a surface only. One invocation per Gaussian: step 1 of engine::surface. The variance along a
// ray is the determinant of the dilated covariance in pixels and depth over that on the image, so that nothing cancels.
//
// Bindings: views (and lenses), state, geometry; visible_rank: by Gaussian, 0 = invisible, or one more than its place;
// out, by place, surface_profiles, two vec4f:
//   [0] slant.x, slant.y, depth, deviation   [1] normal in camera coordinates, unused
// Reference: dapple_reference::Profile. CPU version: cpu/src/stages/surface.rs.

#import shared/step
#import shared/groups
#import shared/planes

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(4) var<storage, read_write> surface_profiles: array<vec4f>;
#if LENS
@group(0) @binding(5) var<storage, read> lenses: array<Lens>;
#endif
#if ANTIALIAS
// Standard deviations of 3D filters, by Gaussian: shared/antialias.
@group(0) @binding(6) var<storage, read> filter_3d: array<f32>;
#endif

#import shared/projection

// Returns the unit vector, or zero for a zero vector. Starts from the largest component, so that no square underflows.
fn unit(v: vec3f) -> vec3f {
    let size = abs(v);
    let scaled = v / max(max(size.x, max(size.y, size.z)), 1.17549435e-38);
    return scaled / sqrt(max(dot(scaled, scaled), 1.17549435e-38));
}

// Returns the normal of the plane of highest density, -Sigma^-1 p, in camera coordinates.
fn normal_of(p: Projection, view: View) -> vec3f {
    let shares = min(p.scales.x, min(p.scales.y, p.scales.z)) / p.scales;
    var sum = vec3f();
    for (var k = 0u; k < 3u; k++) {
        let axis = row_in_camera(p.rotation[k], view);
        sum -= axis * (shares[k] * shares[k] * dot(axis, p.point));
    }
    return unit(sum);
}

@compute @workgroup_size(256)
fn surface_profiles_of(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if i >= state.gaussians {
        return;
    }
    let rank = visible_rank[i];
    if rank == 0u {
        return;
    }
    let view = views[step.view];
    let g = load_gaussian(i, state.capacity);
    let p = project_gaussian(g, to_camera(g.mean, view), view);
    // Rows of the map from the unit ball to pixels and depth.
    let along = depth_row(p.point, view) * p.m;
    let depth = camera_depth(p.point);
    let cross_covariance = vec2f(dot(p.u0, along), dot(p.u1, along));
    var slant = vec2f(
        dot(p.conic.xy, cross_covariance),
        dot(p.conic.yz, cross_covariance),
    ) / depth;
    // Numbers beyond f32 are no slant.
    slant = select(
        slant,
        vec2f(0.0),
        (bitcast<vec2u>(slant) & vec2u(0x7fffffffu)) >= vec2u(0x7f800000u),
    );
    let volume = dot(cross(p.u0, p.u1), along);
    let beside0 = cross(p.u0, along);
    let beside1 = cross(p.u1, along);
    let sides = dot(beside0, beside0) + dot(beside1, beside1);
    let dilation = DILATION + step.extra_dilation;
    let dilated = dilation * fma(dilation, dot(along, along), sides);
    let normal = cross(p.u0, p.u1);
    let determinant = dot(normal, normal)
        + dilation * (dot(p.u0, p.u0) + dot(p.u1, p.u1))
        + dilation * dilation;
    let variance = fma(volume, volume, dilated) / determinant;
    let is_finite = is_finite_bits(magnitude(variance));
    let deviation = sqrt(select(depth * depth, variance, is_finite));
    surface_profiles[2u * (rank - 1u)] =
        vec4f(slant, depth, clamp(deviation, LEAST_DEVIATION * depth, depth));
    surface_profiles[2u * (rank - 1u) + 1u] = vec4f(normal_of(p, view), 0.0);
}
