// `loss`, kernel 1 of 2: the loss, and what SSIM's windows say about their pixels.
//
// SSIM (Wang et al. 2004) compares Gaussian-weighted windows by their means, variances and
// covariance; only windows that lie inside the image count. One workgroup takes a tile, all of its
// steps all three channels; x is the render, y the photo, both shifted by a half:
// 1. Read x and y of the tile and of the 5 pixels around it into shared memory. A masked pixel
//    counts as rendered perfectly: x = y. Sum |x - y| over the tile's pixels.
// 2. Filter x, y, x^2 + y^2, x y along columns, eight outputs an invocation, into registers, and
//    when everyone has read, into the same shared memory.
// 3. Filter along rows, four outputs an invocation; form SSIM and its derivatives with respect to
//    the filtered x, x^2 and x y, times the window's weight in the loss. They are zero where a
//    window does not count. Exchange them, so that neighbours write neighbouring words.
// 4. Add up the tile's part of the loss in a fixed order.
//
// image: the render. photo: see shared/photo. ssim_maps: plane 3 * channel + map, row by row; read
// by loss_gradient, as are its neighbours'. loss_partials: the loss's part, by tile.
// Reference: engine::reference::loss; twin: cpu/src/stages/loss.rs.

#import shared/step
#import shared/groups
#import shared/photo
#import shared/ssim

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> photo: array<u32>;
@group(0) @binding(3) var<storage, read_write> ssim_maps: array<f32>;
@group(0) @binding(4) var<storage, read_write> loss_partials: array<f32>;

// Step 3 takes four outputs of one channel an invocation, and none is idle.
const LANES: u32 = 3u * TILE_SIZE * TILE_SIZE / 4u;
// Pixels that windows centred in the tile see: fewer than four an invocation.
const SEEN: u32 = HALO * HALO;
// Outputs of an invocation along a column.
const RUN: u32 = 8u;
const RUNS: u32 = TILE_SIZE / RUN;
// Odd strides: invocations that take one column of neighbouring rows meet no bank twice.
const STRIDE: u32 = HALO + 1u;
const MAP_STRIDE: u32 = TILE_SIZE / 2u + 1u;
// Values of one channel, and of one of its two planes of filtered values.
const PAIRS: u32 = HALO * STRIDE;
const PLANE: u32 = TILE_SIZE * STRIDE;
const MAP: u32 = TILE_SIZE * MAP_STRIDE;

// One after the other:
// (x, y) by [channel][row of the halo][column of the halo];
// (x, y), filtered along columns, and (x^2 + y^2, x y), by [channel][plane][row][column of the halo];
// two neighbouring derivatives by [channel][map][row][column / 2].
var<workgroup> shared_pairs: array<vec2f, 6u * PLANE>;
var<workgroup> sums: array<f32, LANES>;
var<workgroup> sums_of_sums: array<f32, 16>;

struct Tile {
    // First pixel.
    origin: vec2u,
    // Of the image.
    size: vec2u,
    // See `loss_weights`.
    weights: vec2f,
}

struct Pixel {
    render: vec3f,
    photo: vec3f,
    // |x - y| over channels, if the pixel is the tile's own.
    difference: f32,
}

// The pixel `item` of those seen. Beyond the image's edge the nearest inside stands in: no window
// that counts reaches it.
fn load(tile: Tile, item: u32) -> Pixel {
    let local = vec2u(item % HALO, item / HALO);
    let at = vec2i(tile.origin + local) - i32(SSIM_RADIUS);
    let inside = vec2u(clamp(at, vec2i(0), vec2i(tile.size) - 1));
    let index = inside.y * tile.size.x + inside.x;
    var pixel: Pixel;
    pixel.render = image[index].rgb;
    pixel.photo = photo_target(photo[index]);
    if !photo_counts(index, tile.size.x * tile.size.y) {
        pixel.render = pixel.photo;
    }
    let own = all(local - SSIM_RADIUS < vec2u(TILE_SIZE)) && all(at < vec2i(tile.size));
    let difference = abs(pixel.render - pixel.photo);
    pixel.difference = select(0.0, difference.r + difference.g + difference.b, own);
    return pixel;
}

fn stage(item: u32, pixel: Pixel) {
    if item < SEEN {
        let to = item / HALO * STRIDE + item % HALO;
        shared_pairs[to] = vec2f(pixel.render.r, pixel.photo.r) - SHIFT;
        shared_pairs[to + PAIRS] = vec2f(pixel.render.g, pixel.photo.g) - SHIFT;
        shared_pairs[to + 2u * PAIRS] = vec2f(pixel.render.b, pixel.photo.b) - SHIFT;
    }
}

fn moments(at: u32) -> vec4f {
    let pair = shared_pairs[at];
    return vec4f(pair, dot(pair, pair), pair.x * pair.y);
}

struct Eight {
    upper: Four,
    lower: Four,
}

// Eight outputs along a column, from the pair at `start` on.
fn filter_column(start: u32) -> Eight {
    let v0 = moments(start);
    let v1 = moments(start + 1u * STRIDE);
    let v2 = moments(start + 2u * STRIDE);
    let v3 = moments(start + 3u * STRIDE);
    let v4 = moments(start + 4u * STRIDE);
    let v5 = moments(start + 5u * STRIDE);
    let v6 = moments(start + 6u * STRIDE);
    let v7 = moments(start + 7u * STRIDE);
    let v8 = moments(start + 8u * STRIDE);
    let v9 = moments(start + 9u * STRIDE);
    let v10 = moments(start + 10u * STRIDE);
    let v11 = moments(start + 11u * STRIDE);
    let v12 = moments(start + 12u * STRIDE);
    let v13 = moments(start + 13u * STRIDE);
    let v14 = moments(start + 14u * STRIDE);
    let v15 = moments(start + 15u * STRIDE);
    let v16 = moments(start + 16u * STRIDE);
    let v17 = moments(start + 17u * STRIDE);
    return Eight(
        filter_four(array(v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13)),
        filter_four(array(v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15, v16, v17)),
    );
}

fn store(to: u32, value: vec4f) {
    shared_pairs[to] = value.xy;
    shared_pairs[to + PLANE] = value.zw;
}

fn filtered(at: u32) -> vec4f {
    return vec4f(shared_pairs[at], shared_pairs[at + PLANE]);
}

// Four outputs along a row, from the filtered value at `start` on.
fn filter_row(start: u32) -> Four {
    return filter_four(array(
        filtered(start), filtered(start + 1u), filtered(start + 2u), filtered(start + 3u),
        filtered(start + 4u), filtered(start + 5u), filtered(start + 6u), filtered(start + 7u),
        filtered(start + 8u), filtered(start + 9u), filtered(start + 10u), filtered(start + 11u),
        filtered(start + 12u), filtered(start + 13u),
    ));
}

// The derivatives of the window centred at `at`, from its filtered x, y, x^2 + y^2 and x y, and in w
// 1 - SSIM; 0 where it does not count.
fn window(tile: Tile, at: vec2u, mean: vec4f) -> vec4f {
    // Below the radius the subtraction wraps around to a large number; so it does for an image
    // smaller than a window, which has no pixel beyond the radius.
    let reach = 2u * SSIM_RADIUS;
    if any(at - SSIM_RADIUS >= tile.size - min(tile.size, vec2u(reach))) {
        return vec4f(0.0);
    }
    if !photo_counts(at.y * tile.size.x + at.x, tile.size.x * tile.size.y) {
        return vec4f(0.0);
    }
    let x = mean.x + SHIFT;
    let y = mean.y + SHIFT;
    let variances = mean.z - mean.x * mean.x - mean.y * mean.y;
    let covariance = mean.w - mean.x * mean.y;
    let a1 = 2.0 * x * y + SSIM_C1;
    let a2 = 2.0 * covariance + SSIM_C2;
    let inverse_b1 = 1.0 / (x * x + y * y + SSIM_C1);
    let inverse_b2 = 1.0 / (variances + SSIM_C2);
    let inverse = inverse_b1 * inverse_b2;
    let ssim = a1 * a2 * inverse;
    // With the squares and products of shifted values, the mean stands shifted in a2 and b2.
    let by_mean = 2.0 * (y * a2 - mean.y * a1) * inverse
        - 2.0 * ssim * (x * inverse_b1 - mean.x * inverse_b2);
    let derivatives = vec3f(by_mean, -ssim * inverse_b2, 2.0 * a1 * inverse) * -tile.weights.y;

    return vec4f(derivatives, 1.0 - ssim);
}

// Writes the derivatives of a pixel.
fn put(tile: Tile, pixel: u32) {
    let local = vec2u(pixel % TILE_SIZE, pixel / TILE_SIZE);
    let at = tile.origin + local;
    if any(at >= tile.size) {
        return;
    }
    let pixels = tile.size.x * tile.size.y;
    let index = at.y * tile.size.x + at.x;
    let start = local.y * MAP_STRIDE + local.x / 2u;
    for (var map = 0u; map < 9u; map += 1u) {
        ssim_maps[map * pixels + index] = shared_pairs[start + map * MAP][local.x % 2u];
    }
}

@compute @workgroup_size(LANES)
fn windows(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = group_number(group, groups);
    let tiles = views[step.view].tiles;
    if number >= tiles.x * tiles.y {
        return;
    }
    let counted_pixels = views[step.view].counted_pixels;
    let counted_windows = views[step.view].counted_windows;
    var tile: Tile;
    tile.origin = vec2u(number % tiles.x, number / tiles.x) * TILE_SIZE;
    tile.size = views[step.view].size;
    tile.weights = loss_weights(counted_pixels, counted_windows);

    // Four variables rather than a loop: all reads are on their way at once. The last invocations
    // read the last pixel again, which is not the tile's own.
    let p0 = load(tile, lane);
    let p1 = load(tile, lane + LANES);
    let p2 = load(tile, lane + 2u * LANES);
    let p3 = load(tile, min(lane + 3u * LANES, SEEN - 1u));
    let differences = (p0.difference + p1.difference) + (p2.difference + p3.difference);
    var loss = tile.weights.x * differences;

    if tile.weights.y > 0.0 {
        stage(lane, p0);
        stage(lane + LANES, p1);
        stage(lane + 2u * LANES, p2);
        stage(lane + 3u * LANES, p3);
        workgroupBarrier();

        let has_column = lane < 3u * RUNS * HALO;
        var columns: Eight;
        {
            let channel = lane / (RUNS * HALO);
            let run = lane / HALO % RUNS;
            let column = lane % HALO;
            if has_column {
                columns = filter_column(channel * PAIRS + run * RUN * STRIDE + column);
            }
            workgroupBarrier();
            if has_column {
                let to = 2u * channel * PLANE + run * RUN * STRIDE + column;
                store(to, columns.upper.a);
                store(to + STRIDE, columns.upper.b);
                store(to + 2u * STRIDE, columns.upper.c);
                store(to + 3u * STRIDE, columns.upper.d);
                store(to + 4u * STRIDE, columns.lower.a);
                store(to + 5u * STRIDE, columns.lower.b);
                store(to + 6u * STRIDE, columns.lower.c);
                store(to + 7u * STRIDE, columns.lower.d);
            }
            workgroupBarrier();
        }

        let channel = lane / (TILE_SIZE * TILE_SIZE / 4u);
        let column = lane / TILE_SIZE % (TILE_SIZE / 4u) * 4u;
        let row = lane % TILE_SIZE;
        let means = filter_row(2u * channel * PLANE + row * STRIDE + column);
        let at = tile.origin + vec2u(column, row);
        let a = window(tile, at, means.a);
        let b = window(tile, at + vec2u(1u, 0u), means.b);
        let c = window(tile, at + vec2u(2u, 0u), means.c);
        let d = window(tile, at + vec2u(3u, 0u), means.d);
        loss += tile.weights.y * (a.w + b.w + c.w + d.w);
        workgroupBarrier();
        let to = 3u * channel * MAP + row * MAP_STRIDE + column / 2u;
        shared_pairs[to] = vec2f(a.x, b.x);
        shared_pairs[to + 1u] = vec2f(c.x, d.x);
        shared_pairs[to + MAP] = vec2f(a.y, b.y);
        shared_pairs[to + MAP + 1u] = vec2f(c.y, d.y);
        shared_pairs[to + 2u * MAP] = vec2f(a.z, b.z);
        shared_pairs[to + 2u * MAP + 1u] = vec2f(c.z, d.z);
    }
    sums[lane] = loss;
    workgroupBarrier();

    if tile.weights.y > 0.0 {
        for (var pixel = lane; pixel < TILE_SIZE * TILE_SIZE; pixel += LANES) {
            put(tile, pixel);
        }
    }
    // Sixteen at a time: two rounds instead of eight.
    var sum = 0.0;
    if lane < 16u {
        for (var i = lane; i < LANES; i += 16u) {
            sum += sums[i];
        }
        sums_of_sums[lane] = sum;
    }
    workgroupBarrier();
    if lane == 0u {
        for (var i = 1u; i < 16u; i += 1u) {
            sum += sums_of_sums[i];
        }
        loss_partials[number] = sum;
    }
}
