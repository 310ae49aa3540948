// `surface`: depth and normal of the surface that each pixel shows. Runs after `blend` and surface_profiles.wgsl, in
// renders with a surface only. A workgroup per tile, an invocation per pixel. Formulas: engine::surface.
// 1. Walk over the instances with the alphas of `blend`: the transmittance behind, the interval that has the depth, and
//    the number of instances up to the last that the pixel blends.
// 2. Walk again, for SAMPLES depths at once that divide the interval; the piece with the root is the next interval. At
//    most ROUNDS times, until the interval of each pixel is a rounding error of the depth, or FINE_ENOUGH of it.
//    Transmittances are squared: the product of 1 - G and (1 - alpha)^2 / (1 - G) needs neither roots nor logarithms,
//    and is at least the square of TRANSMITTANCE_MIN.
// 3. Within the last interval, the square of the transmittance is linear.
// 4. Walk once more, for the normal.
//
// Bindings: views; splats2d; tile_start; sorted_gaussian, nearest first; surface_profiles; out surface_pixels: depth,
// and the normal in camera coordinates; zero without a surface.
// Reference: dapple_reference::surface. CPU version: cpu/src/stages/surface.rs.

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
@group(0) @binding(4) var<storage, read> surface_profiles: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> surface_pixels: array<vec4f>;

const HALF2: f32 = MEDIAN_TRANSMITTANCE * MEDIAN_TRANSMITTANCE;
const SAMPLES: u32 = 16u;
const ROUNDS: u32 = 7u;
const FINE_ENOUGH: f32 = 1e-5;
// -log2(e) / 2.
const FORM: f32 = -0.72134752;
// Least exponent of a density.
const EXPONENT_MIN: f32 = -126.0;

// The batch's splats: mean and a, b; c and log2_opacity; profile, without the normal; place.
var<workgroup> shapes: array<vec4f, TILE_PIXELS>;
var<workgroup> tones: array<vec2f, TILE_PIXELS>;
var<workgroup> profiles: array<vec4f, TILE_PIXELS>;
var<workgroup> places: array<u32, TILE_PIXELS>;
// Not zero: a pixel is not finished.
var<workgroup> live: atomic<u32>;
// Number of instances up to the last that a pixel of the tile blends.
var<workgroup> last: atomic<u32>;

// State of a pixel.
struct Pixel {
    centre: vec2f,
    // Number of instances up to the last that the pixel blends.
    end: u32,
    transmittance: f32,
    // Square of the transmittance up to the camera.
    first2: f32,
    // Interval that has the depth, and the squares of the transmittance at its ends.
    near: f32,
    far: f32,
    near2: f32,
    far2: f32,
    is_finished: bool,
}

// An instance at a pixel.
struct Layer {
    alpha: f32,
    peak: f32,
    deviation: f32,
}

// Loads the instances from `first` on. The caller waits at a barrier before and after.
fn load(start: u32, first: u32, count: u32, t: u32, corner: f32) {
    if first + t < count {
        let place = sorted_gaussian[start + first + t];
#if RING
        shapes[t] = nearest_copy(splats2d[3u * place], corner);
#else
        shapes[t] = splats2d[3u * place];
#endif
        tones[t] = splats2d[3u * place + 1u].xy;
        profiles[t] = surface_profiles[2u * place];
        places[t] = place;
    }
}

fn layer_at(centre: vec2f, local: u32) -> Layer {
    let shape = shapes[local];
    let tone = tones[local];
    let profile = profiles[local];
    let d = centre - shape.xy;
    let exponent = exponent_at(column_of(d.x, shape.z, shape.w, tone.y), d.y, tone.x);
    let slant = clamp(dot(profile.xy, d), -MOST_SLANT, MOST_SLANT);
    return Layer(alpha_of(exp2(exponent), exponent), profile.z / (1.0 - slant), profile.w);
}

// Returns the squares of the transmittance of an instance at four depths.
fn transmittance2(layer: Layer, depths: vec4f) -> vec4f {
    let x = (depths - layer.peak) / layer.deviation;
    let rest = 1.0 - layer.alpha * exp2(max(x * x * FORM, vec4f(EXPONENT_MIN)));
    let behind = 1.0 - layer.alpha;
    return select(rest, behind * behind / rest, x > vec4f(0.0));
}

// Runs step 1 for one instance; `number` is its number in the tile.
fn begin(pixel: ptr<function, Pixel>, local: u32, number: u32) {
    let layer = layer_at((*pixel).centre, local);
    let in_front = (*pixel).transmittance;
    let behind = fma(-layer.alpha, in_front, in_front);
    if behind < TRANSMITTANCE_MIN {
        (*pixel).is_finished = true;
        return;
    }
    if layer.alpha > 0.0 {
        let reach = REACH * layer.deviation;
        (*pixel).transmittance = behind;
        (*pixel).end = number + 1u;
        (*pixel).near = min((*pixel).near, layer.peak - reach);
        (*pixel).far = max((*pixel).far, layer.peak + reach);
        (*pixel).first2 *= transmittance2(layer, vec4f(0.0)).x;
    }
}

// Returns the depth with this number of those that divide the interval.
fn depth_of(pixel: Pixel, number: f32) -> f32 {
    return fma(pixel.far - pixel.near, number / f32(SAMPLES + 1u), pixel.near);
}

// Returns four depths, from this number on.
fn depths_of(pixel: Pixel, number: f32) -> vec4f {
    return vec4f(
        depth_of(pixel, number),
        depth_of(pixel, number + 1.0),
        depth_of(pixel, number + 2.0),
        depth_of(pixel, number + 3.0),
    );
}

// Takes the piece of the interval with the root: from the last depth before the first that transmits at most a half.
fn narrow(pixel: ptr<function, Pixel>, found: array<vec4f, 4>) {
    let whole = *pixel;
    var squares = found;
    var is_found = false;
    for (var k = 0u; k < SAMPLES; k++) {
        let square = squares[k / 4u][k % 4u];
        let depth = depth_of(whole, f32(k + 1u));
        if !is_found {
            if square > HALF2 {
                (*pixel).near = depth;
                (*pixel).near2 = square;
            } else {
                (*pixel).far = depth;
                (*pixel).far2 = square;
                is_found = true;
            }
        }
    }
}

fn unit(v: vec3f) -> vec3f {
    let size = abs(v);
    let scaled = v / max(max(size.x, max(size.y, size.z)), 1.17549435e-38);
    return scaled / sqrt(max(dot(scaled, scaled), 1.17549435e-38));
}

@compute @workgroup_size(TILE_PIXELS)
fn surface(
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
    let place = tile_corner(tile, view.tiles.x) + block_pixel(t / BLOCK_PIXELS, t % BLOCK_PIXELS);
    let is_inside = all(place < view.size);
    let corner = f32(tile_corner(tile, view.tiles.x).x);
    let start = tile_start[tile];
    let whole = tile_start[tile + 1u] - start;
    let count = select(whole, min(whole, step.cap), step.cap > 0u);

    // Step 1.
    var pixel: Pixel;
    pixel.centre = vec2f(place) + 0.5;
    pixel.transmittance = 1.0;
    pixel.first2 = 1.0;
    pixel.near = 3e38;
    pixel.near2 = 1.0;
    pixel.is_finished = !is_inside;
    if t == 0u {
        atomicStore(&last, 0u);
    }
    for (var first = 0u; first < count; first += TILE_PIXELS) {
        workgroupBarrier();
        load(start, first, count, t, corner);
        if t == 0u {
            atomicStore(&live, 0u);
        }
        workgroupBarrier();
        for (var k = 0u; k < min(count - first, TILE_PIXELS) && !pixel.is_finished; k++) {
            begin(&pixel, k, first + k);
        }
        if !pixel.is_finished {
            atomicStore(&live, 1u);
        }
        if workgroupUniformLoad(&live) == 0u {
            break;
        }
    }
    let has_surface =
        is_inside && pixel.transmittance <= MEDIAN_TRANSMITTANCE && pixel.first2 > HALF2;
    if !has_surface {
        pixel.end = 0u;
        pixel.near = 0.0;
        pixel.far = 0.0;
    }
    if pixel.near <= 0.0 {
        pixel.near = 0.0;
        pixel.near2 = pixel.first2;
    }
    pixel.far2 = pixel.transmittance * pixel.transmittance;
    workgroupBarrier();
    atomicMax(&last, pixel.end);
    let end = workgroupUniformLoad(&last);

    // Step 2.
    for (var round = 0u; round < ROUNDS; round++) {
        var squares = array<vec4f, 4>(vec4f(1.0), vec4f(1.0), vec4f(1.0), vec4f(1.0));
        let depths = array<vec4f, 4>(
            depths_of(pixel, 1.0),
            depths_of(pixel, 5.0),
            depths_of(pixel, 9.0),
            depths_of(pixel, 13.0),
        );
        for (var first = 0u; first < end; first += TILE_PIXELS) {
            workgroupBarrier();
            load(start, first, end, t, corner);
            workgroupBarrier();
            for (var k = 0u; k < TILE_PIXELS && first + k < pixel.end; k++) {
                let layer = layer_at(pixel.centre, k);
                if layer.alpha > 0.0 {
                    squares[0] *= transmittance2(layer, depths[0]);
                    squares[1] *= transmittance2(layer, depths[1]);
                    squares[2] *= transmittance2(layer, depths[2]);
                    squares[3] *= transmittance2(layer, depths[3]);
                }
            }
        }
        if has_surface {
            narrow(&pixel, squares);
        }
        workgroupBarrier();
        if t == 0u {
            atomicStore(&live, 0u);
        }
        workgroupBarrier();
        if pixel.far - pixel.near > FINE_ENOUGH * pixel.far {
            atomicStore(&live, 1u);
        }
        if workgroupUniformLoad(&live) == 0u {
            break;
        }
    }

    // Step 3.
    let part = (pixel.near2 - HALF2) / max(pixel.near2 - pixel.far2, 1e-30);
    let depth = fma(pixel.far - pixel.near, clamp(part, 0.0, 1.0), pixel.near);

    // Step 4.
    var normal = vec3f();
    for (var first = 0u; first < end; first += TILE_PIXELS) {
        workgroupBarrier();
        load(start, first, end, t, corner);
        workgroupBarrier();
        for (var k = 0u; k < TILE_PIXELS && first + k < pixel.end; k++) {
            let layer = layer_at(pixel.centre, k);
            let x = (depth - layer.peak) / layer.deviation;
            let density = layer.alpha * exp2(max(x * x * FORM, EXPONENT_MIN));
            let weight = abs(x) * density / ((1.0 - density) * layer.deviation);
            normal = fma(vec3f(weight), surface_profiles[2u * places[k] + 1u].xyz, normal);
        }
    }
    if is_inside {
        let found = select(vec4f(0.0), vec4f(depth, unit(normal)), has_surface);
        surface_pixels[place.y * view.size.x + place.x] = found;
    }
}
