// `project`: from Gaussians to ellipses, colours and the number of tiles they touch. One invocation a Gaussian:
// 1. Skip absent Gaussians, and at random a fraction `step.dropout` of the others (engine::dropout). Absent: a
//    parameter that is not finite, no direction in the quaternion, nearer than `near`, beyond what the lens shows,
//    opacity below ALPHA_MIN, a covariance beyond f32.
// 2. Project (shared/projection) and count tiles (shared/tiles): none means invisible.
// 3. Evaluate the colour of visible Gaussians; a colour that is not finite makes a Gaussian absent too.
// 4. Count the workgroup's visible ones, for `order`, and give them places side by side in the buffers of visible
//    Gaussians: a prefix sum over the workgroup, from the value of an atomic counter on.
// Reference: dapple_reference::project. CPU version: cpu/src/stages/project.rs.
//
// Elsewhere positions come from prefix sums, never from atomic counters. Step 4 is the one exception: the order of
// workgroups, and so a Gaussian's place, differs from run to run. This is sound because a place is only the address of
// a Gaussian's numbers. `order` lists (depth, place) in order of index, by a prefix sum over group_visible, and sorts
// stably by depth only: ties, the order of emission, slots, and the order in which they are added up do not depend on
// the places. `update` and `gradients` go from a Gaussian to its place through visible_rank. The gain: splats and all
// that follows from them take memory for the visible Gaussians, not for all, without projecting twice. If there are
// more than visible_capacity, the ones beyond are not written, and `order` halts.
//
// Bindings: views (and lenses), state, geometry, sh_rest in; visible_placed, the counter, 0 before; out, by Gaussian,
// visible_rank (0 = invisible, or one more than its place), and group_visible, a word per workgroup; by place splats2d,
// tiles_touched, and depth_bits (depths once more by themselves, for `order` to read densely). In permutation MLP,
// colours go through the appearance MLP of the step's view: shared/mlp. In permutation CHOSEN_TILES, tiles_before, by
// tile, in: shared/tiles.
//
// In permutation FRAMES several views are rendered at once: a row of dispatches takes longer than its work where a view
// has little. Each 256 Gaussians have a workgroup for every view, one after the other, so that they are read once. Out:
// instead of visible_rank, which nothing reads after such a render, frame_places, the first place of each workgroup.
// tiles_touched has the number of the view in its highest bits.

#import shared/step
#import shared/groups
#import shared/planes
#import shared/noise
#import shared/splat2d
#import shared/projection
#import shared/colour
#import shared/clamped_colour
#import shared/tiles
#import shared/model_index

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
#if FRAMES
@group(0) @binding(8) var<storage, read_write> frame_places: array<u32>;
#else
@group(0) @binding(8) var<storage, read_write> visible_rank: array<u32>;
#endif
@group(0) @binding(9) var<storage, read_write> visible_placed: atomic<u32>;
#if LENS
@group(0) @binding(10) var<storage, read> lenses: array<Lens>;
#endif

#if ANTIALIAS
// Standard deviations of 3D filters, by Gaussian: shared/antialias.
@group(0) @binding(11) var<storage, read> filter_3d: array<f32>;
#endif

#if MLP
// In: the network and the embeddings of the appearance MLP, and planes of Gaussians' features. Out, by place: gains
// plus one, and colours before the MLP.
@group(0) @binding(12) var<storage, read> mlp: array<vec4f>;
@group(0) @binding(13) var<storage, read_write> looked: array<vec4f>;
@group(0) @binding(14) var<storage, read> mlp_features: array<f32>;
#import shared/mlp_affine
#endif

#if CHOSEN_TILES
@group(0) @binding(15) var<storage, read> tiles_before: array<u32>;
#endif

// The conic is stored times -log2(e) / 2, so that alpha is a power of two.
const FORM: f32 = -0.72134752;

// Contents of splats2d, and the number of tiles: 0 = invisible.
struct Splat {
    s0: vec4f,
    s1: vec4f,
    s2: vec4f,
    tiles: u32,
#if MLP
    gain: vec3f,
    raw: vec3f,
#endif
}

// Steps 1 to 3.
fn splat_of(i: u32) -> Splat {
    let view = views[view_number()];
    let capacity = state.capacity;
    let g = load_gaussian(i, capacity);
    let point = to_camera(g.mean, view);
    let depth = camera_depth(point);
    if !is_valid_gaussian(g) || depth < step.near || depth <= 0.0 {
        return Splat();
    }
    if !camera_shows(point) {
        return Splat();
    }
    var p = project_gaussian(g, point, view);
    if step.dropout > 0.0 {
        if uniform_number(noise_key(step.seed, step.number, model_index(i)), DROPOUT) < step.dropout {
            return Splat();
        }
        p.opacity = min(p.opacity / (1.0 - step.dropout), ALPHA_MAX);
    }
    let centre_is_finite = is_finite_bits(max(magnitude(p.mean2d.x), magnitude(p.mean2d.y)));
    if !p.is_sound || !centre_is_finite || p.opacity < ALPHA_MIN {
        return Splat();
    }
    let log2_opacity = log2(p.opacity);
    let radius = sqrt(p.variance * (reach(log2_opacity) * 2.0 * LN_2));
    let a = p.conic.x * FORM;
    let b = p.conic.y * (2.0 * FORM);
    let c = p.conic.z * FORM;
    let ellipse = ellipse_of(p.mean2d, a, b, c, log2_opacity, radius, view);
    let tiles = count_tiles(ellipse, view);
    if tiles == 0u {
        return Splat();
    }
    let direction = view_direction(g.mean, view.centre.xyz).xyz;
#if MLP
    let own = raw_colour(i, capacity, step.sh_degree, direction);
    let affine = mlp_affine(mlp_place(i, capacity, g.mean), step.view - 1u);
    let gain = 1.0 + affine.gain;
    let raw = fma(gain, own, affine.offset);
#else
    let raw = raw_colour(i, capacity, step.sh_degree, direction);
#endif
    if !is_finite_bits(magnitude3(raw)) {
        return Splat();
    }
    let rgb = clamped_colour(raw);
    return Splat(
        vec4f(p.mean2d, a, b),
        vec4f(c, log2_opacity, rgb.xy),
        vec4f(rgb.z, depth, radius),
        tiles,
#if MLP
        gain,
        own,
#endif
    );
}

// Where the workgroup's places begin.
var<workgroup> first_place: u32;

@compute @workgroup_size(SCAN_WIDTH)
fn project(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let number = group_number(id, dispatched);
#if FRAMES
    frame = number % step.frames;
    let block = number / step.frames;
#else
    let block = number;
#endif
    let i = block * SCAN_WIDTH + index_of(at);
    var splat = Splat();
    if i < state.gaussians {
        splat = splat_of(i);
    }
    let is_visible = splat.tiles > 0u;
    let scanned = scan_of(select(0u, 1u, is_visible), at);
    if index_of(at) == 0u && block * SCAN_WIDTH < state.gaussians {
        group_visible[number] = scanned.total;
        first_place = atomicAdd(&visible_placed, scanned.total);
#if FRAMES
        frame_places[number] = first_place;
#endif
    }
    workgroupBarrier();
    let c = first_place + scanned.before;
    var rank = 0u;
    if is_visible && c < state.visible_capacity {
        splats2d[3u * c] = splat.s0;
        splats2d[3u * c + 1u] = splat.s1;
        splats2d[3u * c + 2u] = splat.s2;
#if MLP
        looked[2u * c] = vec4f(splat.gain, 0.0);
        looked[2u * c + 1u] = vec4f(splat.raw, 0.0);
#endif
#if FRAMES
        tiles_touched[c] = splat.tiles | frame << FRAME_SHIFT;
#else
        tiles_touched[c] = splat.tiles;
#endif
        depth_bits[c] = bitcast<u32>(splat.s2.y);
        rank = c + 1u;
    }
#if !FRAMES
    if i < state.gaussians {
        visible_rank[i] = rank;
    }
#endif
}
