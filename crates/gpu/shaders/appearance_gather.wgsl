// `appearance`, after `loss`: sums the gradients of all pixels by the cells of the grid.
//
// A column of cells (one x and y, all luminances) has a workgroup for each of GRID_SLICES shares of the pixels around
// it.
// 1. Each invocation reads every (GRID_SLICES LANES)-th of the column's pixels: its weight along x and y, the two cells
//    of its luminance, dL/d(mapped colour) times (red, green, blue, 1) of the render. It adds the products to its own
//    sums. The sums of all invocations are interleaved in shared memory: for any cell, no two invocations use the same
//    bank.
// 2. The invocations' sums are added up in a fixed order: one writer per number, no atomics.
//
// Permutation SMALL_WORKGROUPS is for devices whose workgroups share 16 KiB. It sums half of the luminances first and
// then the other half: the same sums in the same order.
//
// image: the render. image_gradient: dL/d(corrected). appearance_partials: [slice][column][luminance][12]. Reference:
// dapple_reference::appearance_backward.

#import shared/step
#import shared/appearance

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> image_gradient: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> appearance_partials: array<f32>;

const LANES: u32 = 64u;
// Numbers of a column.
const COLUMN: u32 = 12u * GRID_L;

#if SMALL_WORKGROUPS
// Luminances that are summed together. Contributions to other luminances go to an unused place behind them. This avoids
// a branch, so that the arithmetic is compiled to the same bits.
const TOGETHER: u32 = (GRID_L + 1u) / 2u;
const PLACES: u32 = TOGETHER + 1u;
#else
const TOGETHER: u32 = GRID_L;
const PLACES: u32 = GRID_L;
#endif

// [number][invocation]
var<workgroup> sums: array<f32, 12u * PLACES * LANES>;

// Returns the first pixel that a cell can reach along an axis, and one past the last. Rounded outward: pixels that are
// too far have no weight.
fn reach(cell: u32, pixels: u32, cells: u32) -> vec2u {
    let each = f32(pixels) / f32(max(cells, 2u) - 1u);
    let first = (f32(cell) - 1.0) * each - 1.5;
    let last = (f32(cell) + 1.0) * each + 1.5;
    return vec2u(u32(max(first, 0.0)), min(u32(last), pixels));
}

fn tent(at: f32, cell: u32) -> f32 {
    return max(1.0 - abs(at - f32(cell)), 0.0);
}

// `at` counts from the first luminance of the current half.
fn add(at: u32, row: u32, value: vec4f, lane: u32) {
#if SMALL_WORKGROUPS
    // Luminances before the first have wrapped around, and are beyond all others.
    let to = (12u * min(at, TOGETHER) + 4u * row) * LANES + lane;
#else
    let to = (12u * at + 4u * row) * LANES + lane;
#endif
    sums[to] += value.x;
    sums[to + LANES] += value.y;
    sums[to + 2u * LANES] += value.z;
    sums[to + 3u * LANES] += value.w;
}

// Runs steps 1 and 2 for the luminances from `begin` on.
fn gather_from(
    begin: u32, across: vec2u, down: vec2u, cell: vec2u, size: vec2u, share: u32, column: u32, lane: u32,
) {
    let width = across.y - across.x;
    let count = width * (down.y - down.x);
    let numbers = 12u * min(TOGETHER, GRID_L - begin);
    for (var k = 0u; k < numbers; k += 1u) {
        sums[k * LANES + lane] = 0.0;
    }
    for (var i = share * LANES + lane; i < count; i += GRID_SLICES * LANES) {
        let at = vec2u(across.x + i % width, down.x + i / width);
        let weight = tent(along_image(at.x, size.x, GRID_X), cell.x)
            * tent(along_image(at.y, size.y, GRID_Y), cell.y);
        let index = at.y * size.x + at.x;
        let render = image[index].rgb;
        let by = image_gradient[index].rgb * weight;
        let input = vec4f(render, 1.0);
        let l = place_of_luminance(dot(LUMA, render));
        add(l.first - begin, 0u, (1.0 - l.part) * by.r * input, lane);
        add(l.first - begin, 1u, (1.0 - l.part) * by.g * input, lane);
        add(l.first - begin, 2u, (1.0 - l.part) * by.b * input, lane);
        add(l.next - begin, 0u, l.part * by.r * input, lane);
        add(l.next - begin, 1u, l.part * by.g * input, lane);
        add(l.next - begin, 2u, l.part * by.b * input, lane);
    }
    workgroupBarrier();
    for (var k = lane; k < numbers; k += LANES) {
        // Each invocation begins at its own fixed offset, so that no two use the same bank.
        var sum = 0.0;
        for (var i = 0u; i < LANES; i += 1u) {
            sum += sums[k * LANES + (i + lane) % LANES];
        }
        appearance_partials[(share * GRID_COLUMNS + column) * COLUMN + 12u * begin + k] = sum;
    }
}

@compute @workgroup_size(LANES)
fn gather(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
    let column = group.x;
    let cell = vec2u(column % GRID_X, column / GRID_X);
    let size = views[step.view].size;
    let across = reach(cell.x, size.x, GRID_X);
    let down = reach(cell.y, size.y, GRID_Y);
#if SMALL_WORKGROUPS
    for (var begin = 0u; begin < GRID_L; begin += TOGETHER) {
        gather_from(begin, across, down, cell, size, group.y, column, lane);
        workgroupBarrier();
    }
#else
    gather_from(0u, across, down, cell, size, group.y, column, lane);
#endif
}
