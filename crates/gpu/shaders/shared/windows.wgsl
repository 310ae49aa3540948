// Filters the pixels of the SSIM windows that are centred in a tile: shared by `loss` and `score`. x is the render, y
// the photo, both shifted by a half. For each channel, with a barrier after each of the first two:
// 1. `stage` puts (x, y) of the tile and of the pixels around it into shared memory.
// 2. `filter_rows` filters x, y, x^2 + y^2, x y along rows, four outputs an invocation.
// 3. `filter_columns` filters them along columns, two outputs an invocation, so that no invocation is idle.
//
// Workgroups have LANES invocations. The importing shader imports shared/ssim.

// Two outputs of the filter along columns per invocation.
const LANES: u32 = TILE_SIZE * TILE_SIZE / 2u;
// Pixels in the windows that are centred in the tile; an invocation reads at most six of them.
const SEEN: u32 = HALO * HALO;
// Odd strides: invocations that read or write one column of neighbouring rows use different banks.
const PAIR_STRIDE: u32 = HALO + 1u;
const FILTERED_STRIDE: u32 = TILE_SIZE + 1u;

// (x, y) of one channel, by row of the halo.
var<workgroup> pairs: array<vec2f, HALO * PAIR_STRIDE>;
// x, y, x^2 + y^2, x y, filtered along rows.
var<workgroup> filtered: array<vec4f, HALO * FILTERED_STRIDE>;

// Selects the channel without a dynamic index, which some drivers would place in memory.
fn pick(colour: vec3f, channel: u32) -> f32 {
    return select(select(colour.b, colour.g, channel == 1u), colour.r, channel == 0u);
}

// Puts one channel of a pixel into shared memory.
fn stage(item: u32, render: vec3f, photo: vec3f, channel: u32) {
    if item < SEEN {
        let pair = vec2f(pick(render, channel), pick(photo, channel));
        pairs[item / HALO * PAIR_STRIDE + item % HALO] = pair - SHIFT;
    }
}

fn moments(at: u32) -> vec4f {
    let pair = pairs[at];
    return vec4f(pair, dot(pair, pair), pair.x * pair.y);
}

// Must run between barriers, after `stage`.
fn filter_rows(lane: u32) {
    if lane >= HALO * (TILE_SIZE / 4u) {
        return;
    }
    let row = lane % HALO;
    let column = lane / HALO * 4u;
    let start = row * PAIR_STRIDE + column;
    let out = filter_four(array(
        moments(start), moments(start + 1u), moments(start + 2u), moments(start + 3u),
        moments(start + 4u), moments(start + 5u), moments(start + 6u), moments(start + 7u),
        moments(start + 8u), moments(start + 9u), moments(start + 10u), moments(start + 11u),
        moments(start + 12u), moments(start + 13u),
    ));
    let to = row * FILTERED_STRIDE + column;
    filtered[to] = out.a;
    filtered[to + 1u] = out.b;
    filtered[to + 2u] = out.c;
    filtered[to + 3u] = out.d;
}

// Returns the pixel of the tile at the centre of the first of an invocation's two windows; the second is below.
fn window_place(lane: u32) -> vec2u {
    return vec2u(lane % TILE_SIZE, lane / TILE_SIZE * 2u);
}

// Returns the moments of both windows, after `filter_rows` and a barrier. Reads only `filtered`, which is written again
// after the next channel's first barrier.
fn filter_columns(lane: u32) -> Two {
    let place = window_place(lane);
    let start = place.y * FILTERED_STRIDE + place.x;
    return filter_two(array(
        filtered[start],
        filtered[start + FILTERED_STRIDE],
        filtered[start + 2u * FILTERED_STRIDE],
        filtered[start + 3u * FILTERED_STRIDE],
        filtered[start + 4u * FILTERED_STRIDE],
        filtered[start + 5u * FILTERED_STRIDE],
        filtered[start + 6u * FILTERED_STRIDE],
        filtered[start + 7u * FILTERED_STRIDE],
        filtered[start + 8u * FILTERED_STRIDE],
        filtered[start + 9u * FILTERED_STRIDE],
        filtered[start + 10u * FILTERED_STRIDE],
        filtered[start + 11u * FILTERED_STRIDE],
    ));
}
