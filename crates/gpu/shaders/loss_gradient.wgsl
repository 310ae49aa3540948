// `loss`, kernel 2 of 2: from the derivatives of SSIM's windows to dL/dpixel.
//
// The filter is its own transpose: with F the filter, x the render and y the photo, both shifted,
// dSSIM/dx = F[d/dmean] + 2 x F[d/dsquare] + y F[d/dproduct]. One workgroup takes a tile:
// 1. Filter all nine maps along columns, straight from global memory (a row of invocations reads a
//    row of pixels), eight outputs an invocation, into shared memory. Pixels beyond the image's
//    edge repeat the pixels on the edge, whose windows do not count: their derivatives are zero.
// 2. Filter along rows, four outputs an invocation, from vectors of four; exchange them, so that
//    neighbours read and write neighbouring pixels.
// 3. Put channels and L1's sign together. A masked pixel has no gradient.
//
// image_gradient: dL/d(red, green, blue), and 0 for dL/dT. ssim_maps: see loss_windows. Reference:
// dapple_reference::loss. CPU version: cpu/src/stages/loss.rs.

#import shared/step
#import shared/groups
#import shared/photo
#import shared/ssim

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> photo: array<u32>;
@group(0) @binding(3) var<storage, read> ssim_maps: array<f32>;
@group(0) @binding(4) var<storage, read_write> image_gradient: array<vec4f>;

// One pixel per invocation in step 3.
const LANES: u32 = TILE_SIZE * TILE_SIZE;
const MAPS: u32 = 9u;
// Outputs of an invocation along a column, and inputs in their reach.
const RUN: u32 = 8u;
const RUNS: u32 = TILE_SIZE / RUN;
// Vectors per row of the halo. Odd: eight invocations that read one column of neighbouring rows,
// the number that the hardware serves at once, use different banks.
const VECTORS: u32 = (HALO + 3u) / 4u;
const MAP: u32 = TILE_SIZE * VECTORS;
// Vectors per row of the tile, odd for the same reason.
const TILE_VECTORS: u32 = TILE_SIZE / 4u + 1u;
const TILE_MAP: u32 = TILE_SIZE * TILE_VECTORS;

// One after the other: maps filtered along columns, [map][row of the tile][column of the halo / 4];
// maps filtered both ways, [map][row][column / 4].
var<workgroup> filtered: array<vec4f, MAPS * MAP>;

// Returns the three maps of a channel at row `y` of the column whose top is at `base` of its first
// plane.
fn column_maps(base: u32, y: i32, size: vec2u, pixels: u32) -> vec4f {
    let place = base + u32(clamp(y, 0, i32(size.y) - 1)) * size.x;
    return vec4f(
        ssim_maps[place],
        ssim_maps[place + pixels],
        ssim_maps[place + 2u * pixels],
        0.0,
    );
}

fn store(channel: u32, row: u32, column: u32, maps: vec4f) {
    let to = 3u * channel * MAP + row * VECTORS + column / 4u;
    filtered[to][column % 4u] = maps.x;
    filtered[to + MAP][column % 4u] = maps.y;
    filtered[to + 2u * MAP][column % 4u] = maps.z;
}

fn filter_columns(origin: vec2u, size: vec2u, item: u32) {
    let channel = item / (HALO * RUNS);
    let run = item / HALO % RUNS;
    let column = item % HALO;
    let pixels = size.x * size.y;
    let first = vec2i(origin + vec2u(column, run * RUN)) - i32(SSIM_RADIUS);
    let base = 3u * channel * pixels + u32(clamp(first.x, 0, i32(size.x) - 1));
    let v0 = column_maps(base, first.y, size, pixels);
    let v1 = column_maps(base, first.y + 1, size, pixels);
    let v2 = column_maps(base, first.y + 2, size, pixels);
    let v3 = column_maps(base, first.y + 3, size, pixels);
    let v4 = column_maps(base, first.y + 4, size, pixels);
    let v5 = column_maps(base, first.y + 5, size, pixels);
    let v6 = column_maps(base, first.y + 6, size, pixels);
    let v7 = column_maps(base, first.y + 7, size, pixels);
    let v8 = column_maps(base, first.y + 8, size, pixels);
    let v9 = column_maps(base, first.y + 9, size, pixels);
    let v10 = column_maps(base, first.y + 10, size, pixels);
    let v11 = column_maps(base, first.y + 11, size, pixels);
    let v12 = column_maps(base, first.y + 12, size, pixels);
    let v13 = column_maps(base, first.y + 13, size, pixels);
    let v14 = column_maps(base, first.y + 14, size, pixels);
    let v15 = column_maps(base, first.y + 15, size, pixels);
    let v16 = column_maps(base, first.y + 16, size, pixels);
    let v17 = column_maps(base, first.y + 17, size, pixels);
    let upper = filter_four(array(
        v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13,
    ));
    let lower = filter_four(array(
        v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15, v16, v17,
    ));
    let row = run * RUN;
    store(channel, row, column, upper.a);
    store(channel, row + 1u, column, upper.b);
    store(channel, row + 2u, column, upper.c);
    store(channel, row + 3u, column, upper.d);
    store(channel, row + 4u, column, lower.a);
    store(channel, row + 5u, column, lower.b);
    store(channel, row + 6u, column, lower.c);
    store(channel, row + 7u, column, lower.d);
}

// Returns sixteen columns of one map.
fn sixteen(start: u32) -> Four {
    return Four(filtered[start], filtered[start + 1u], filtered[start + 2u], filtered[start + 3u]);
}

// Returns the three maps of a channel, filtered, at four neighbouring pixels.
fn filter_row(channel: u32, row: u32, vector: u32) -> Four {
    let start = 3u * channel * MAP + row * VECTORS + vector;
    let x = sixteen(start);
    let y = sixteen(start + MAP);
    let z = sixteen(start + 2u * MAP);
    return filter_four(array(
        vec4f(x.a.x, y.a.x, z.a.x, 0.0),
        vec4f(x.a.y, y.a.y, z.a.y, 0.0),
        vec4f(x.a.z, y.a.z, z.a.z, 0.0),
        vec4f(x.a.w, y.a.w, z.a.w, 0.0),
        vec4f(x.b.x, y.b.x, z.b.x, 0.0),
        vec4f(x.b.y, y.b.y, z.b.y, 0.0),
        vec4f(x.b.z, y.b.z, z.b.z, 0.0),
        vec4f(x.b.w, y.b.w, z.b.w, 0.0),
        vec4f(x.c.x, y.c.x, z.c.x, 0.0),
        vec4f(x.c.y, y.c.y, z.c.y, 0.0),
        vec4f(x.c.z, y.c.z, z.c.z, 0.0),
        vec4f(x.c.w, y.c.w, z.c.w, 0.0),
        vec4f(x.d.x, y.d.x, z.d.x, 0.0),
        vec4f(x.d.y, y.d.y, z.d.y, 0.0),
    ));
}

fn keep(channel: u32, row: u32, vector: u32, maps: Four) {
    let to = 3u * channel * TILE_MAP + row * TILE_VECTORS + vector;
    filtered[to] = vec4f(maps.a.x, maps.b.x, maps.c.x, maps.d.x);
    filtered[to + TILE_MAP] = vec4f(maps.a.y, maps.b.y, maps.c.y, maps.d.y);
    filtered[to + 2u * TILE_MAP] = vec4f(maps.a.z, maps.b.z, maps.c.z, maps.d.z);
}

// Returns dSSIM/dx of one channel, at a pixel of the tile.
fn ssim_gradient(channel: u32, local: vec2u, x: f32, y: f32) -> f32 {
    let at = 3u * channel * TILE_MAP + local.y * TILE_VECTORS + local.x / 4u;
    let lane = local.x % 4u;
    return filtered[at][lane]
        + 2.0 * (x - SHIFT) * filtered[at + TILE_MAP][lane]
        + (y - SHIFT) * filtered[at + 2u * TILE_MAP][lane];
}

// Writes dL/dpixel.
fn put(origin: vec2u, size: vec2u, weights: vec2f, lane: u32) {
    let local = vec2u(lane % TILE_SIZE, lane / TILE_SIZE);
    let at = origin + local;
    if any(at >= size) {
        return;
    }
    let index = at.y * size.x + at.x;
    let x = image[index].rgb;
    let y = photo_target(photo[index]);
    var out = weights.x * sign(x - y);
    if weights.y > 0.0 {
        out += vec3f(
            ssim_gradient(0u, local, x.r, y.r),
            ssim_gradient(1u, local, x.g, y.g),
            ssim_gradient(2u, local, x.b, y.b),
        );
    }
    let counts = photo_counts(index, size.x * size.y);
    image_gradient[index] = vec4f(select(vec3f(0.0), out, counts), 0.0);
}

@compute @workgroup_size(LANES)
fn gradient(
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
    let size = views[step.view].size;
    let origin = vec2u(number % tiles.x, number / tiles.x) * TILE_SIZE;
    let weights = loss_weights(counted_pixels, counted_windows);

    if weights.y > 0.0 {
        if lane < 3u * RUNS * HALO {
            filter_columns(origin, size, lane);
        }
        workgroupBarrier();
        // Four outputs per invocation: the last quarter of the invocations has no channel.
        let channel = lane / (TILE_SIZE * TILE_SIZE / 4u);
        let vector = lane / TILE_SIZE % (TILE_SIZE / 4u);
        let row = lane % TILE_SIZE;
        var maps: Four;
        if channel < 3u {
            maps = filter_row(channel, row, vector);
        }
        workgroupBarrier();
        if channel < 3u {
            keep(channel, row, vector, maps);
        }
        workgroupBarrier();
    }
    put(origin, size, weights, lane);
}
