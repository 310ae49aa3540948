// `project`: from Gaussians to ellipses, colours and the number of tiles they touch. One invocation a
// Gaussian:
// 1. Leave out what is absent: a parameter that is not finite, no direction in the quaternion, nearer
//    than `near`, opacity below ALPHA_MIN, a covariance beyond f32.
// 2. Project (shared/projection) and count tiles (shared/tiles): none means invisible.
// 3. Of the visible, evaluate the colour; one that is not finite makes absent too.
// 4. Count the workgroup's visible ones, for `order`.
// Reference: engine::reference::project; twin: cpu/src/stages/project.rs.
//
// Bindings: views, state, geometry, sh_rest in; splats2d and depth_bits (visible ones only; depths once
// more by themselves, for `order` to read densely), tiles_touched (0 = invisible), group_visible out.

#import shared/step
#import shared/groups
#import shared/planes
#import shared/splat2d
#import shared/projection
#import shared/colour
#import shared/tiles

alias ScanValue = u32;
const SCAN_WIDTH: u32 = 256u;
#import shared/workgroup_scan

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read> sh_rest: array<u32>;
@group(0) @binding(4) var<storage, read_write> splats2d: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> tiles_touched: array<u32>;
@group(0) @binding(6) var<storage, read_write> group_visible: array<u32>;
@group(0) @binding(7) var<storage, read_write> depth_bits: array<u32>;

const LN_2: f32 = 0.69314718;
// The conic is stored times -log2(e) / 2, so that alpha is a power of two.
const FORM: f32 = -0.72134752;

// Steps 1 to 3: the number of tiles; writes the splat if there are some.
fn tiles_of(i: u32) -> u32 {
    let view = views[step.view];
    let capacity = state.capacity;
    let g = load_gaussian(i, capacity);
    let point = to_camera(g.mean, view);
    if !is_valid_gaussian(g) || point.z < step.near || point.z <= 0.0 {
        return 0u;
    }
    let p = project_gaussian(g, point, view);
    let centre_is_finite = is_finite_bits(max(magnitude(p.mean2d.x), magnitude(p.mean2d.y)));
    if !p.is_sound || !centre_is_finite || p.opacity < ALPHA_MIN {
        return 0u;
    }
    let log2_opacity = log2(p.opacity);
    let radius = sqrt(p.variance * (reach(log2_opacity) * 2.0 * LN_2));
    let a = p.conic.x * FORM;
    let b = p.conic.y * (2.0 * FORM);
    let c = p.conic.z * FORM;
    let tiles = count_tiles(ellipse_of(p.mean2d, a, b, c, log2_opacity, radius, view));
    if tiles == 0u {
        return 0u;
    }
    let direction = view_direction(g.mean, view.centre.xyz).xyz;
    let raw = raw_colour(i, capacity, step.sh_degree, direction);
    if !is_finite_bits(magnitude3(raw)) {
        return 0u;
    }
    let rgb = max(raw, vec3f());
    splats2d[3u * i] = vec4f(p.mean2d, a, b);
    splats2d[3u * i + 1u] = vec4f(c, log2_opacity, rgb.xy);
    splats2d[3u * i + 2u] = vec4f(rgb.z, point.z, radius);
    depth_bits[i] = bitcast<u32>(point.z);
    return tiles;
}

@compute @workgroup_size(SCAN_WIDTH)
fn project(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
#if SUBGROUPS
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) lane: u32,
#else
    @builtin(local_invocation_index) t: u32,
#endif
) {
#if !SUBGROUPS
    let group = t / SUBGROUP_SIZE;
    let lane = t % SUBGROUP_SIZE;
#endif
    let number = group_number(id, dispatched);
    let i = number * SCAN_WIDTH + group * SUBGROUP_SIZE + lane;
    var tiles = 0u;
    if i < state.gaussians {
        tiles = tiles_of(i);
        tiles_touched[i] = tiles;
    }
    let visible = workgroup_scan(select(0u, 1u, tiles > 0u), group, lane).total;
    if group == 0u && lane == 0u && number * SCAN_WIDTH < state.gaussians {
        group_visible[number] = visible;
    }
}
