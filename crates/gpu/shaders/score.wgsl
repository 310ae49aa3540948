// `score`: computes the error of a render against its photo, and the pictures that show it. Runs after `blend`, for
// scores only: nothing in a step depends on it.
//
// `sums`, one workgroup per tile, like `loss`'s first kernel without derivatives:
// 1. Read render and photo of the tile and of the 5 pixels around it. Colours of the render are clamped to 0..1, NaN to
//    0. A masked pixel is taken from the photo.
// 2. Sum squared differences over the tile's pixels, and absolute differences of the unclamped render.
// 3. Filter each channel, and sum 1 - SSIM over the windows centred in the tile that count. Scores differ near SSIM 1,
//    where 1 - SSIM keeps more digits.
// 4. Add up the invocations' sums in a fixed order; the host adds the tiles'.
//
// `pictures`, four pixels an invocation, which are three words of bytes: the render rounded to bytes, and the error map
// after it.
//
// views: entry 0 is the render's. image: the render. photo: see shared/photo. score_partials: by tile, squared and
// absolute error, lost similarity, 0. score_pictures: bytes of red, green and blue, row by row; each picture begins at
// a whole word.
// Reference: engine::score and dapple_reference::loss. CPU version: train's `evaluate`.

#import shared/step
#import shared/groups
#import shared/photo
#import shared/ssim
#import shared/windows

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> photo: array<u32>;
@group(0) @binding(3) var<storage, read_write> score_partials: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> score_pictures: array<u32>;

var<workgroup> tree: array<vec4f, LANES>;

struct Tile {
    // First pixel of the tile.
    origin: vec2u,
    // Size of the image.
    size: vec2u,
}

struct Pixel {
    render: vec3f,
    photo: vec3f,
    // Squared and absolute error over channels, if the pixel is the tile's own and counts.
    errors: vec2f,
}

// Tests bits: WGSL lets compilers assume that comparisons meet no NaN.
fn are_nan(colour: vec3f) -> vec3<bool> {
    return (bitcast<vec3u>(colour) & vec3u(0x7fffffffu)) > vec3u(0x7f800000u);
}

fn clamped(colour: vec3f) -> vec3f {
    return select(clamp(colour, vec3f(0.0), vec3f(1.0)), vec3f(0.0), are_nan(colour));
}

// Returns the pixel `item` of the tile and its halo. Beyond the image's edge, the nearest pixel inside replaces it: no
// window that counts reaches such a pixel.
fn load(tile: Tile, item: u32) -> Pixel {
    let local = vec2u(item % HALO, item / HALO);
    let at = vec2i(tile.origin + local) - i32(SSIM_RADIUS);
    let inside = vec2u(clamp(at, vec2i(0), vec2i(tile.size) - 1));
    let index = inside.y * tile.size.x + inside.x;
    let colour = image[index].rgb;
    let counts = photo_counts(index, tile.size.x * tile.size.y);
    var pixel: Pixel;
    pixel.photo = photo_target(photo[index]);
    pixel.render = select(pixel.photo, clamped(colour), counts);
    let own = all(local - SSIM_RADIUS < vec2u(TILE_SIZE)) && all(at < vec2i(tile.size));
    let difference = pixel.render - pixel.photo;
    let raw = abs(colour - pixel.photo);
    let errors = vec2f(dot(difference, difference), raw.r + raw.g + raw.b);
    pixel.errors = select(vec2f(0.0), errors, own && counts);
    return pixel;
}

// Returns 1 - SSIM of the window centred at `at`, from its filtered x, y, x^2 + y^2 and x y; 0 where the window does
// not count.
fn window(tile: Tile, at: vec2u, mean: vec4f) -> f32 {
    if any(at >= tile.size) {
        return 0.0;
    }
    // True if the whole window is inside the image: below the radius the subtraction wraps around to a large number.
    let counts = all(at - SSIM_RADIUS < tile.size - 2u * SSIM_RADIUS)
        && photo_counts(at.y * tile.size.x + at.x, tile.size.x * tile.size.y);
    let x = mean.x + SHIFT;
    let y = mean.y + SHIFT;
    let variances = mean.z - mean.x * mean.x - mean.y * mean.y;
    let covariance = mean.w - mean.x * mean.y;
    let luminance = (2.0 * x * y + SSIM_C1) / (x * x + y * y + SSIM_C1);
    let structure = (2.0 * covariance + SSIM_C2) / (variances + SSIM_C2);
    return select(0.0, 1.0 - luminance * structure, counts);
}

@compute @workgroup_size(LANES)
fn sums(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = group_number(group, groups);
    let tiles = views[step.view].tiles;
    if number >= tiles.x * tiles.y {
        return;
    }
    var tile: Tile;
    tile.origin = vec2u(number % tiles.x, number / tiles.x) * TILE_SIZE;
    tile.size = views[step.view].size;

    // As in `loss`: six variables that stay in registers; the last invocations read the last pixel again, which is not
    // the tile's own.
    let p0 = load(tile, lane);
    let p1 = load(tile, lane + LANES);
    let p2 = load(tile, lane + 2u * LANES);
    let p3 = load(tile, lane + 3u * LANES);
    let p4 = load(tile, lane + 4u * LANES);
    let p5 = load(tile, min(lane + 5u * LANES, SEEN - 1u));
    let errors = p0.errors + p1.errors + p2.errors + p3.errors + p4.errors + p5.errors;

    var lost = 0.0;
    for (var channel = 0u; channel < 3u; channel += 1u) {
        stage(lane, p0.render, p0.photo, channel);
        stage(lane + LANES, p1.render, p1.photo, channel);
        stage(lane + 2u * LANES, p2.render, p2.photo, channel);
        stage(lane + 3u * LANES, p3.render, p3.photo, channel);
        stage(lane + 4u * LANES, p4.render, p4.photo, channel);
        stage(lane + 5u * LANES, p5.render, p5.photo, channel);
        workgroupBarrier();
        filter_rows(lane);
        workgroupBarrier();
        let out = filter_columns(lane);
        let at = tile.origin + window_place(lane);
        lost += window(tile, at, out.a) + window(tile, at + vec2u(0u, 1u), out.b);
    }

    tree[lane] = vec4f(errors, lost, 0.0);
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            tree[lane] += tree[lane + half];
        }
    }
    if lane == 0u {
        score_partials[number] = tree[0];
    }
}

// Packs the low three bytes: red in the lowest.
fn packed(bytes: vec3u) -> u32 {
    return bytes.r | (bytes.g << 8u) | (bytes.b << 16u);
}

// Rounds colours 0..1 to bytes.
fn rounded(colour: vec3f) -> u32 {
    return packed(vec3u(colour * 255.0 + 0.5));
}

// CPU version: engine::score::TURBO.
fn turbo(value: f32) -> vec3f {
    let x = clamp(value, 0.0, 1.0);
    var sum = vec3f(59.28638, 2.82957, 27.34825);
    sum = sum * x + vec3f(-152.94239, 4.27730, -89.90311);
    sum = sum * x + vec3f(132.13108, -14.18503, 110.36277);
    sum = sum * x + vec3f(-42.66032, 4.84297, -60.58205);
    sum = sum * x + vec3f(4.61539, 2.19419, 12.64195);
    sum = sum * x + vec3f(0.13572, 0.09140, 0.10667);
    return clamp(sum, vec3f(0.0), vec3f(1.0));
}

// Returns a pixel of the render, and of the error map.
fn shown(index: u32, pixels: u32) -> vec2u {
    let at = min(index, pixels - 1u);
    let colour = image[at].rgb;
    let render = clamped(colour);
    let difference = abs(photo_target(photo[at]) - render);
    let mean = (difference.r + difference.g + difference.b) / (3.0 * FULL_ERROR);
    let error = rounded(turbo(select(mean, 1.0, any(are_nan(colour)))));
    return vec2u(rounded(render), select(HIDDEN, error, photo_counts(at, pixels)));
}

// Packs four pixels, one per argument, into three words.
fn put(first: u32, a: u32, b: u32, c: u32, d: u32) {
    score_pictures[first] = a | (b << 24u);
    score_pictures[first + 1u] = (b >> 8u) | (c << 16u);
    score_pictures[first + 2u] = (c >> 16u) | (d << 8u);
}

const QUADS_PER_GROUP: u32 = TILE_SIZE * TILE_SIZE / 4u;

// One workgroup per tile: the tiles have at least as many pixels as the image.
@compute @workgroup_size(QUADS_PER_GROUP)
fn pictures(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let size = views[step.view].size;
    let pixels = size.x * size.y;
    let quads = (pixels + 3u) / 4u;
    let quad = group_number(group, groups) * QUADS_PER_GROUP + lane;
    if quad >= quads {
        return;
    }
    let a = shown(4u * quad, pixels);
    let b = shown(4u * quad + 1u, pixels);
    let c = shown(4u * quad + 2u, pixels);
    let d = shown(4u * quad + 3u, pixels);
    put(3u * quad, a.x, b.x, c.x, d.x);
    put(3u * (quads + quad), a.y, b.y, c.y, d.y);
}
