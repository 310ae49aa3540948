// `load_geometry`, `load_sh`: parameters in rows, as gsplat has them, into the engine's planes. `store_geometry`,
// `store_sh`, `store_means2d`, `store_absolute2d`: gradients by them, and by projected centres, from planes into rows. One
// invocation per Gaussian.
//
// Rows have standard deviations s and opacities o where planes have logarithms and logits: dL/ds = dL/d(log s) / s, and
// dL/do = dL/d(logit o) / (o (1 - o)). Values are moved off the ends, where logarithms and logits are infinite; s beyond
// its end has no gradient. A value that is no number is passed on, and such a Gaussian is not rendered.
//
// A buffer of rows of n Gaussians with K coefficients has means [n, 3], quaternions [n, 4], standard deviations [n, 3],
// opacities [n], coefficients [n, K, 3], and for gradients those by projected centres [places, n, 2]. Rows of coefficients
// pass through workgroup memory, so that neighbours read and write neighbours on both sides.
//
// Bindings: shape; rows; geometry, sh_rest, the engine's planes; gradient_geometry, gradient_sh,
// gradient_means2d, of gradients.wgsl; gradient_rows.

#import shared/flat_groups
#import shared/is_number

// Gaussians, stride of a plane, K, place of the gradients by projected centres.
@group(0) @binding(0) var<uniform> shape: vec4u;
@group(0) @binding(1) var<storage, read> rows: array<f32>;
@group(0) @binding(2) var<storage, read_write> geometry: array<f32>;
@group(0) @binding(3) var<storage, read_write> sh_rest: array<f32>;
@group(0) @binding(4) var<storage, read> gradient_geometry: array<f32>;
@group(0) @binding(5) var<storage, read> gradient_sh: array<f32>;
@group(0) @binding(6) var<storage, read> gradient_means2d: array<f32>;
@group(0) @binding(7) var<storage, read_write> gradient_rows: array<f32>;

// Gaussians of a workgroup.
const BLOCK: u32 = 64u;
// Invocations of a workgroup that moves coefficients.
const LANES: u32 = 256u;
// Columns that they move at once.
const COLUMNS: u32 = LANES / BLOCK;
const OPACITY_MARGIN: f32 = 1e-7;
const LEAST_SCALE: f32 = 1e-30;

// Coefficients of a block, a row after the other. Rows have an odd number of words, so that a column meets all banks.
var<workgroup> tile: array<f32, 2880>;

fn quats_at() -> u32 {
    return 3u * shape.x;
}

fn scales_at() -> u32 {
    return 7u * shape.x;
}

fn opacities_at() -> u32 {
    return 10u * shape.x;
}

fn coefficients_at() -> u32 {
    return 11u * shape.x;
}

fn means2d_at() -> u32 {
    return (11u + 3u * shape.z + 2u * shape.w) * shape.x;
}

fn bounded_opacity(value: f32) -> f32 {
    return clamp(value, OPACITY_MARGIN, 1.0 - OPACITY_MARGIN);
}

// A block of coefficients other than the first.
struct Part {
    // Its first Gaussian, and the number of Gaussians.
    first: u32,
    held: u32,
    // Numbers of a Gaussian, and of all.
    words: u32,
    numbers: u32,
    // 2^20 / words, rounded up: a product instead of a division.
    inverse: u32,
}

fn part_of(first: u32) -> Part {
    let held = min(BLOCK, max(shape.x, first) - first);
    let words = 3u * (shape.z - 1u);
    return Part(first, held, words, held * words, (1u << 20u) / words + 1u);
}

// Returns the row of a number of a block, below 2880: the error of the product is below 2880 / 2^20, less than 1 / words.
fn row_of(part: Part, number: u32) -> u32 {
    return number * part.inverse >> 20u;
}

// Returns the place of a number of a block in the rows.
fn row_number(part: Part, number: u32) -> u32 {
    return coefficients_at() + 3u * shape.z * part.first + number + 3u * (row_of(part, number) + 1u);
}

// Returns the place of a number of a block in `tile`.
fn tile_place(part: Part, number: u32) -> u32 {
    return number + row_of(part, number) * ((part.words | 1u) - part.words);
}

fn keep(part: Part, number: u32, value: f32) {
    if number < part.numbers {
        tile[tile_place(part, number)] = value;
    }
}

fn keep_column(part: Part, row: u32, column: u32, value: f32) {
    if column < part.words {
        tile[row * (part.words | 1u) + column] = value;
    }
}

@compute @workgroup_size(64)
fn load_geometry(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = BLOCK * group_number(id, count) + local;
    let stride = shape.y;
    if i >= shape.x {
        return;
    }
    for (var k = 0u; k < 3u; k += 1u) {
        geometry[k * stride + i] = rows[3u * i + k];
        let s = rows[scales_at() + 3u * i + k];
        let log_s = log(max(abs(s), LEAST_SCALE));
        geometry[(3u + k) * stride + i] = select(s, log_s, is_number(s));
        geometry[(11u + k) * stride + i] = rows[coefficients_at() + 3u * shape.z * i + k];
    }
    for (var k = 0u; k < 4u; k += 1u) {
        geometry[(6u + k) * stride + i] = rows[quats_at() + 4u * i + k];
    }
    let o = rows[opacities_at() + i];
    let bounded = bounded_opacity(o);
    geometry[10u * stride + i] = select(o, log(bounded / (1.0 - bounded)), is_number(o));
}

@compute @workgroup_size(LANES)
fn load_sh(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let part = part_of(BLOCK * group_number(id, count));
    if part.held == 0u {
        return;
    }
    for (var at = local; at < part.numbers; at += 4u * LANES) {
        let numbers = at + LANES * vec4u(0u, 1u, 2u, 3u);
        // All are loaded before the first is stored.
        let places = min(numbers, vec4u(part.numbers - 1u));
        let values = vec4f(
            rows[row_number(part, places.x)],
            rows[row_number(part, places.y)],
            rows[row_number(part, places.z)],
            rows[row_number(part, places.w)],
        );
        keep(part, numbers.x, values.x);
        keep(part, numbers.y, values.y);
        keep(part, numbers.z, values.z);
        keep(part, numbers.w, values.w);
    }
    workgroupBarrier();
    let row = local % BLOCK;
    if row < part.held {
        for (var column = local / BLOCK; column < part.words; column += COLUMNS) {
            sh_rest[column * shape.y + part.first + row] = tile[row * (part.words | 1u) + column];
        }
    }
}

@compute @workgroup_size(64)
fn store_geometry(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = BLOCK * group_number(id, count) + local;
    let stride = shape.y;
    if i >= shape.x {
        return;
    }
    for (var k = 0u; k < 3u; k += 1u) {
        gradient_rows[3u * i + k] = gradient_geometry[k * stride + i];
        let s = rows[scales_at() + 3u * i + k];
        let by_s = gradient_geometry[(3u + k) * stride + i] / s;
        gradient_rows[scales_at() + 3u * i + k] = select(0.0, by_s, abs(s) > LEAST_SCALE);
        gradient_rows[coefficients_at() + 3u * shape.z * i + k] = gradient_geometry[(11u + k) * stride + i];
    }
    for (var k = 0u; k < 4u; k += 1u) {
        gradient_rows[quats_at() + 4u * i + k] = gradient_geometry[(6u + k) * stride + i];
    }
    let o = bounded_opacity(rows[opacities_at() + i]);
    gradient_rows[opacities_at() + i] = gradient_geometry[10u * stride + i] / (o * (1.0 - o));
}

fn put_means2d(i: u32, plane: u32) {
    if i >= shape.x {
        return;
    }
    for (var k = 0u; k < 2u; k += 1u) {
        gradient_rows[means2d_at() + 2u * i + k] = gradient_means2d[(plane + k) * shape.y + i];
    }
}

@compute @workgroup_size(64)
fn store_means2d(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    put_means2d(BLOCK * group_number(id, count) + local, 0u);
}

@compute @workgroup_size(64)
fn store_absolute2d(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    put_means2d(BLOCK * group_number(id, count) + local, 2u);
}

@compute @workgroup_size(LANES)
fn store_sh(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let part = part_of(BLOCK * group_number(id, count));
    if part.held == 0u {
        return;
    }
    let row = min(local % BLOCK, part.held - 1u);
    for (var column = local / BLOCK; column < part.words; column += 4u * COLUMNS) {
        let columns = column + COLUMNS * vec4u(0u, 1u, 2u, 3u);
        let places = shape.y * min(columns, vec4u(part.words - 1u)) + part.first + row;
        let values = vec4f(gradient_sh[places.x], gradient_sh[places.y], gradient_sh[places.z], gradient_sh[places.w]);
        keep_column(part, row, columns.x, values.x);
        keep_column(part, row, columns.y, values.y);
        keep_column(part, row, columns.z, values.z);
        keep_column(part, row, columns.w, values.w);
    }
    workgroupBarrier();
    for (var at = local; at < part.numbers; at += LANES) {
        gradient_rows[row_number(part, at)] = tile[tile_place(part, at)];
    }
}
