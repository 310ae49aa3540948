// `contributors`: the Gaussians that each pixel shows most, four at a time. Runs after `blend`, in renders that ask for them
// only.
// 1. `places`, an invocation per Gaussian: the Gaussian of each place in splats2d.
// 2. `contributors`, a workgroup per tile, an invocation per pixel: a walk over the instances with the weights of `blend`,
//    alpha times the transmittance in front. A pixel keeps the four largest; of equal ones the nearest come first. With
//    FLAG_MORE they follow the last one that the call before found.
//
// Bindings: views; splats2d; tile_start; sorted_gaussian, nearest first; state; visible_rank: by Gaussian, 0 = invisible, or
// one more than its place; place_gaussian, by place; contributor_pixels: indices of four Gaussians, or NO_CONTRIBUTOR, then
// the bits of their weights; contributor_last: the last one's bits of the weight, and its number in the tile.
// Reference: dapple_reference::contributions. CPU version: cpu/src/stages/contributors.rs.

#import shared/step
#import shared/groups
#import shared/splat2d
#import shared/blocks
#if RING
#import shared/ring
#endif

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(2) var<storage, read> tile_start: array<u32>;
@group(0) @binding(3) var<storage, read> sorted_gaussian: array<u32>;
@group(0) @binding(4) var<storage, read> state: State;
@group(0) @binding(5) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(6) var<storage, read_write> place_gaussian: array<u32>;
@group(0) @binding(7) var<storage, read_write> contributor_pixels: array<vec4u>;
@group(0) @binding(8) var<storage, read_write> contributor_last: array<vec2u>;

// Equal to engine::shown::NO_CONTRIBUTOR.
const NO_CONTRIBUTOR: u32 = 0xffffffffu;

// The batch's splats: mean and a, b; c and log2_opacity; place.
var<workgroup> shapes: array<vec4f, TILE_PIXELS>;
var<workgroup> tones: array<vec2f, TILE_PIXELS>;
var<workgroup> held: array<u32, TILE_PIXELS>;
// Not zero: a pixel is not finished.
var<workgroup> live: atomic<u32>;

// State of a pixel.
struct Pixel {
    centre: vec2f,
    transmittance: f32,
    is_finished: bool,
    // Weight and number in the tile of the last one that was found before.
    least: f32,
    least_number: u32,
    // Weights, numbers in the tile and places of the largest, in order; weight 0 = nothing.
    weights: vec4f,
    numbers: vec4u,
    found: vec4u,
}

@compute @workgroup_size(256)
fn places(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if i < state.gaussians && visible_rank[i] > 0u {
        place_gaussian[visible_rank[i] - 1u] = i;
    }
}

// Inserts an instance behind those of at least its weight; the last one is dropped.
fn insert(pixel: ptr<function, Pixel>, weight: f32, number: u32, place: u32) {
    var w = weight;
    var n = number;
    var p = place;
    for (var k = 0u; k < 4u; k++) {
        if w > (*pixel).weights[k] {
            let old_weight = (*pixel).weights[k];
            let old = vec2u((*pixel).numbers[k], (*pixel).found[k]);
            (*pixel).weights[k] = w;
            (*pixel).numbers[k] = n;
            (*pixel).found[k] = p;
            w = old_weight;
            n = old.x;
            p = old.y;
        }
    }
}

// Blends instance `local` of the batch, `number` in the tile, and keeps it if it is among the largest.
fn put(pixel: ptr<function, Pixel>, local: u32, number: u32) {
    let shape = shapes[local];
    let tone = tones[local];
    let d = (*pixel).centre - shape.xy;
    let exponent = exponent_at(column_of(d.x, shape.z, shape.w, tone.y), d.y, tone.x);
    let alpha = alpha_of(exp2(exponent), exponent);
    let in_front = (*pixel).transmittance;
    let behind = fma(-alpha, in_front, in_front);
    if behind < TRANSMITTANCE_MIN {
        (*pixel).is_finished = true;
        return;
    }
    (*pixel).transmittance = behind;
    let weight = alpha * in_front;
    let is_equal = weight == (*pixel).least && number > (*pixel).least_number;
    if (weight < (*pixel).least || is_equal) && weight > (*pixel).weights.w {
        insert(pixel, weight, number, held[local]);
    }
}

@compute @workgroup_size(TILE_PIXELS)
fn contributors(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
#if PARTS
    let tile = group_number(id, dispatched) * DISPATCH_PARTS + PART;
#else
    let tile = group_number(id, dispatched);
#endif
    let view = views[step.view];
    if tile >= view.tiles.x * view.tiles.y {
        return;
    }
    let corner = tile_corner(tile, view.tiles.x);
    let at = corner + block_pixel(t / BLOCK_PIXELS, t % BLOCK_PIXELS);
    let is_inside = all(at < view.size);
    let place = at.y * view.size.x + at.x;
    let start = tile_start[tile];
    let whole = tile_start[tile + 1u] - start;
    let count = select(whole, min(whole, step.cap), step.cap > 0u);

    var pixel: Pixel;
    pixel.centre = vec2f(at) + 0.5;
    pixel.transmittance = 1.0;
    pixel.is_finished = !is_inside;
    // No weight is larger than 1.
    pixel.least = 2.0;
    if is_inside && (step.flags & FLAG_MORE) != 0u {
        pixel.least = bitcast<f32>(contributor_last[place].x);
        pixel.least_number = contributor_last[place].y;
    }
    for (var first = 0u; first < count; first += TILE_PIXELS) {
        workgroupBarrier();
        if first + t < count {
            let instance = sorted_gaussian[start + first + t];
#if RING
            shapes[t] = nearest_copy(splats2d[3u * instance], f32(corner.x));
#else
            shapes[t] = splats2d[3u * instance];
#endif
            tones[t] = splats2d[3u * instance + 1u].xy;
            held[t] = instance;
        }
        if t == 0u {
            atomicStore(&live, 0u);
        }
        workgroupBarrier();
        for (var k = 0u; k < min(count - first, TILE_PIXELS) && !pixel.is_finished; k++) {
            put(&pixel, k, first + k);
        }
        if !pixel.is_finished {
            atomicStore(&live, 1u);
        }
        if workgroupUniformLoad(&live) == 0u {
            break;
        }
    }
    if !is_inside {
        return;
    }
    var gaussians = vec4u(NO_CONTRIBUTOR);
    for (var k = 0u; k < 4u; k++) {
        if pixel.weights[k] > 0.0 {
            gaussians[k] = place_gaussian[pixel.found[k]];
        }
    }
    contributor_pixels[2u * place] = gaussians;
    contributor_pixels[2u * place + 1u] = bitcast<vec4u>(pixel.weights);
    contributor_last[place] = vec2u(bitcast<u32>(pixel.weights.w), pixel.numbers.w);
}
