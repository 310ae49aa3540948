// `loss`, kernel 1 of 2: the loss, and the derivatives of SSIM's windows by their pixels.
//
// SSIM (Wang et al. 2004) compares Gaussian-weighted windows by their means, variances and
// covariance; only windows inside the image count. One workgroup takes a tile; x is the render, y
// the photo, both shifted by a half:
// 1. Read x and y of the tile and of the 5 pixels around it into registers, once for all channels.
//    A masked pixel counts as rendered perfectly: x = y. Sum |x - y| over the tile's pixels.
// 2. For each channel: put (x, y) into shared memory; filter x, y, x^2 + y^2, x y along rows, four
//    outputs an invocation, into shared memory again.
// 3. Filter along columns, two outputs an invocation, so that no invocation is idle; form SSIM and
//    its derivatives with respect to the filtered x, x^2 and x y, times the window's weight in the
//    loss. The derivatives are zero where a window does not count.
// 4. Add up the tile's part of the loss in a fixed order.
//
// image: the render. photo: see shared/photo. ssim_maps: plane 3 * channel + map, row by row;
// loss_gradient reads the maps of a tile and of its neighbours. loss_partials: the loss's part, by
// tile. Reference: dapple_reference::loss. CPU version: cpu/src/stages/loss.rs.

#import shared/step
#import shared/groups
#import shared/photo
#import shared/ssim
#import shared/windows

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> photo: array<u32>;
@group(0) @binding(3) var<storage, read_write> ssim_maps: array<f32>;
@group(0) @binding(4) var<storage, read_write> loss_partials: array<f32>;

var<workgroup> sums: array<f32, LANES>;

struct Tile {
    // First pixel of the tile.
    origin: vec2u,
    // Size of the image.
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

// Returns the pixel `item` of the tile and its halo. Beyond the image's edge, the nearest pixel
// inside replaces it: no window that counts reaches such a pixel.
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

// Returns the sum of 1 - SSIM over the windows that count.
fn take_windows(tile: Tile, lane: u32, channel: u32) -> f32 {
    let out = filter_columns(lane);
    let at = tile.origin + window_place(lane);
    return window(tile, at, channel, out.a) + window(tile, at + vec2u(0u, 1u), channel, out.b);
}

// Writes the derivatives of the window centred at `at`, from its filtered x, y, x^2 + y^2 and x y,
// and returns 1 - SSIM; 0 where the window does not count.
fn window(tile: Tile, at: vec2u, channel: u32, mean: vec4f) -> f32 {
    if any(at >= tile.size) {
        return 0.0;
    }
    let pixels = tile.size.x * tile.size.y;
    let index = at.y * tile.size.x + at.x;
    // True if the whole window is inside the image: below the radius the subtraction wraps around
    // to a large number.
    let counts = all(at - SSIM_RADIUS < tile.size - 2u * SSIM_RADIUS)
        && photo_counts(index, pixels);

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
    // With the squares and products of shifted values, a2 and b2 contain the shifted mean.
    let by_mean = 2.0 * (y * a2 - mean.y * a1) * inverse
        - 2.0 * ssim * (x * inverse_b1 - mean.x * inverse_b2);
    let derivatives = vec3f(by_mean, -ssim * inverse_b2, 2.0 * a1 * inverse) * -tile.weights.y;

    let map = 3u * channel * pixels + index;
    let stored = select(vec3f(0.0), derivatives, counts);
    ssim_maps[map] = stored.x;
    ssim_maps[map + pixels] = stored.y;
    ssim_maps[map + 2u * pixels] = stored.z;
    return select(0.0, 1.0 - ssim, counts);
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

    // Six variables rather than an array, so that they stay in registers. The last invocations read
    // the last pixel again, which is not the tile's own.
    let p0 = load(tile, lane);
    let p1 = load(tile, lane + LANES);
    let p2 = load(tile, lane + 2u * LANES);
    let p3 = load(tile, lane + 3u * LANES);
    let p4 = load(tile, lane + 4u * LANES);
    let p5 = load(tile, min(lane + 5u * LANES, SEEN - 1u));
    let differences = p0.difference + p1.difference + p2.difference
        + p3.difference + p4.difference + p5.difference;
    var loss = tile.weights.x * differences;

    if tile.weights.y > 0.0 {
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
            lost += take_windows(tile, lane, channel);
        }
        loss += tile.weights.y * lost;
    }

    // Sixteen at a time: two rounds instead of seven.
    sums[lane] = loss;
    workgroupBarrier();
    var sum = 0.0;
    if lane < 16u {
        for (var i = lane; i < LANES; i += 16u) {
            sum += sums[i];
        }
    }
    workgroupBarrier();
    if lane < 16u {
        sums[lane] = sum;
    }
    workgroupBarrier();
    if lane == 0u {
        for (var i = 1u; i < 16u; i += 1u) {
            sum += sums[i];
        }
        loss_partials[number] = sum;
    }
}
