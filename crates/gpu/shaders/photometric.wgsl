// `appearance` by the photometric model: gains of a photo, vignetting and response curves of its camera.
//
// `photometric_apply`, before `loss`, one invocation per pixel, one workgroup per tile: from image to corrected.
// `photometric_back`, after `loss`: turns dL/d(corrected) into dL/d(image), and sums the derivatives by the numbers of
// the model over the tile in a fixed order, six at a time.
// `photometric_advance`, one workgroup per number: adds up the tiles, each lane its own, then the lanes in a fixed
// order; the prior; Adam, with the bias correction of the photo's steps or of its camera's. A halted step changes
// nothing.
//
// photometric: for each view a row of PHOTOMETRIC_ROW numbers, its first and its second moments. photometric_seen: for
// each view its steps, those of the camera that begins with it, and the view that its camera begins with.
// photometric_partials: [tile][number]. Reference: dapple_reference::PhotometricImage. CPU version:
// cpu/src/features/photometric/kernels.rs.

#import shared/step
#import shared/rests
#import shared/groups
#import shared/parameters
#import shared/tile_pixel
#import shared/tree_sum

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> views: array<View>;
@group(0) @binding(2) var<storage, read> image: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> corrected: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> image_gradient: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> photometric: array<f32>;
@group(0) @binding(6) var<storage, read_write> photometric_seen: array<u32>;
@group(0) @binding(7) var<storage, read_write> photometric_partials: array<f32>;

// Numbers of a row: 3 log gains, one unused, 9 of the vignetting, 6 of the response, one unused.
const ROW: u32 = PHOTOMETRIC_ROW;
const CAMERA: u32 = 4u;
const CURVES: u32 = 13u;
// Numbers that change, without the unused ones.
const NUMBERS: u32 = 18u;
const LANES: u32 = TILE_SIZE * TILE_SIZE;

// Rows of the view and of its camera.
fn photo_row() -> u32 {
    // View 0 is for renders.
    return step.view - 1u;
}

fn camera_row() -> u32 {
    return photometric_seen[3u * photo_row() + 2u];
}

fn vec3_at(row: u32, first: u32, stride: u32) -> vec3f {
    let at = 3u * row * ROW + first;
    return vec3f(photometric[at], photometric[at + stride], photometric[at + 2u * stride]);
}

struct Corrected {
    gain: vec3f,
    light: vec3f,
    value: vec3f,
    slope: vec3f,
    // Derivatives of the value by c1 and c2.
    by_c1: vec3f,
    by_c2: vec3f,
}

fn correct(x: vec3f, radius2: f32) -> Corrected {
    let camera = camera_row();
    let exponent = vec3_at(photo_row(), 0u, 1u) + radius2 * (vec3_at(camera, CAMERA, 3u)
        + radius2 * (vec3_at(camera, CAMERA + 1u, 3u) + radius2 * vec3_at(camera, CAMERA + 2u, 3u)));
    let c1 = 0.5 * tanh(vec3_at(camera, CURVES, 2u));
    let c2 = 0.5 * tanh(vec3_at(camera, CURVES + 1u, 2u));
    var out: Corrected;
    out.gain = exp(exponent);
    let y = x * out.gain;
    out.light = y;
    let is_beyond = y > vec3f(1.0);
    let bump = y * (1.0 - y);
    let tilt = 1.0 - 2.0 * y;
    out.by_c1 = select(bump, 1.0 - y, is_beyond);
    out.by_c2 = select(bump * tilt, y - 1.0, is_beyond);
    let last = 1.0 - c1 + c2;
    out.slope = select(1.0 + c1 * tilt + c2 * (1.0 - 6.0 * bump), last, is_beyond);
    out.value = select(y + bump * (c1 + c2 * tilt), 1.0 + last * (y - 1.0), is_beyond);
    return out;
}

// Returns the squared distance of a pixel from the principal point, in halves of the diagonal.
fn radius2_of(at: vec2u) -> f32 {
    let from_centre = vec2f(at) + 0.5 - views[step.view].principal;
    let size = vec2f(views[step.view].size);
    return dot(from_centre, from_centre) * (4.0 / dot(size, size));
}

@compute @workgroup_size(TILE_SIZE * TILE_SIZE)
fn photometric_apply(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = tile_pixel(group, groups, lane);
    if pixel.inside {
        let render = image[pixel.index];
        corrected[pixel.index] = vec4f(correct(render.rgb, radius2_of(pixel.at)).value, render.a);
    }
}

// Sums six numbers of a tile's pixels, and writes them to the tile's partials from `first` on.
fn sum_tile(tile: u32, first: u32, a: vec3f, b: vec3f, lane: u32) {
    sum_six(lane, a, b);
    let tiles = views[step.view].tiles;
    if lane < 6u && tile < tiles.x * tiles.y {
        photometric_partials[NUMBERS * tile + first + lane] = six_sums[256u * lane];
    }
    // The next sums use the same memory.
    workgroupBarrier();
}

@compute @workgroup_size(TILE_SIZE * TILE_SIZE)
fn photometric_back(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = tile_pixel(group, groups, lane);
    let r2 = radius2_of(pixel.at);
    var by_exponent = vec3f(0.0);
    var by_c1 = vec3f(0.0);
    var by_c2 = vec3f(0.0);
    if pixel.inside {
        let at = correct(image[pixel.index].rgb, r2);
        let by = image_gradient[pixel.index];
        by_exponent = by.rgb * at.slope * at.light;
        by_c1 = by.rgb * at.by_c1;
        by_c2 = by.rgb * at.by_c2;
        image_gradient[pixel.index] = vec4f(by.rgb * at.slope * at.gain, by.a);
    }
    // Gains and curves; then vignetting, by power.
    sum_tile(pixel.tile, 0u, by_exponent, by_c1, lane);
    sum_tile(pixel.tile, 6u, by_c2, r2 * by_exponent, lane);
    sum_tile(pixel.tile, 12u, r2 * r2 * by_exponent, r2 * r2 * r2 * by_exponent, lane);
}

// A number of the model: its place within its row, the owner of the row, and the weight of the prior.
struct Number {
    at: u32,
    is_camera: bool,
    is_curve: bool,
    count: f32,
}

// Numbers are summed as gains by channel, c1 by channel, c2 by channel, then vignetting by power and channel.
fn number_of(index: u32) -> Number {
    let channel = index % 3u;
    let kind = index / 3u;
    if kind == 0u {
        return Number(channel, false, false, 3.0);
    }
    if kind < 3u {
        return Number(CURVES + 2u * channel + kind - 1u, true, true, 6.0);
    }
    return Number(CAMERA + 3u * channel + kind - 3u, true, false, 9.0);
}

@compute @workgroup_size(TILE_SIZE * TILE_SIZE)
fn photometric_advance(
    @builtin(workgroup_id) group: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.x;
    let tiles = views[step.view].tiles;
    let count = tiles.x * tiles.y;
    var sum = 0.0;
    for (var tile = lane; tile < count; tile += LANES) {
        sum += photometric_partials[NUMBERS * tile + index];
    }
    sum_six(lane, vec3f(sum, 0.0, 0.0), vec3f());
    if lane != 0u || state.halted != 0u {
        return;
    }
    var by = six_sums[0];
    let number = number_of(index);
    let row = select(photo_row(), camera_row(), number.is_camera);
    let at = 3u * row * ROW + number.at;
    let old = photometric[at];
    if number.is_curve {
        let c = 0.5 * tanh(old);
        by *= 0.5 - 2.0 * c * c;
    }
    by += 2.0 * parameters.photometric_prior / number.count * old;
    let seen = photometric_seen[3u * row + u32(number.is_camera)] + 1u;
    let own_rate = parameters.photometric_rate * select(1.0, PHOTOMETRIC_CAMERA_SHARE, number.is_camera);
    let rate = own_rate / correction(step.beta1, seen);
    let moved = adam_rested(
        photometric[at + ROW],
        photometric[at + 2u * ROW],
        by,
        rate,
        1.0 / correction(step.beta2, seen),
    );
    photometric[at + ROW] = moved.m;
    photometric[at + 2u * ROW] = moved.v;
    photometric[at] = old - moved.change;
}

// After all numbers: counts the steps of the view and of its camera.
@compute @workgroup_size(1)
fn photometric_count() {
    if state.halted == 0u {
        photometric_seen[3u * photo_row()] += 1u;
        photometric_seen[3u * camera_row() + 1u] += 1u;
    }
}
