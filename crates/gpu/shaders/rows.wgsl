// `load_geometry`, `load_sh`: parameters in rows, as gsplat has them, into the engine's planes. `store_geometry`,
// `store_sh`: gradients by them from planes into rows. One invocation per Gaussian.
//
// Rows have standard deviations s and opacities o where planes have logarithms and logits: dL/ds = dL/d(log s) / s, and
// dL/do = dL/d(logit o) / (o (1 - o)). Values are moved off the ends, where logarithms and logits are infinite; s beyond
// its end has no gradient. A value that is no number is passed on, and such a Gaussian is not rendered.
//
// A buffer of rows of n Gaussians with K coefficients has means [n, 3], quaternions [n, 4], standard deviations [n, 3],
// opacities [n], coefficients [n, K, 3], and for gradients those by projected centres [n, 2]. Rows of coefficients pass
// through workgroup memory, so that neighbours read and write neighbours on both sides.
//
// Bindings: shape (n, stride of a plane, K); rows; geometry, sh_rest, the engine's planes; gradient_geometry, gradient_sh,
// gradient_means2d, of gradients.wgsl; gradient_rows.

#import shared/flat_groups
#import shared/is_number

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
    return (11u + 3u * shape.z) * shape.x;
}

fn bounded_opacity(value: f32) -> f32 {
    return clamp(value, OPACITY_MARGIN, 1.0 - OPACITY_MARGIN);
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

@compute @workgroup_size(64)
fn load_sh(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = BLOCK * group_number(id, count);
    let words = 3u * (shape.z - 1u);
    let held = min(BLOCK, max(shape.x, first) - first);
    for (var at = local; at < held * words; at += BLOCK) {
        let row = at / words;
        let column = at - row * words;
        tile[row * (words | 1u) + column] =
            rows[coefficients_at() + 3u * shape.z * (first + row) + 3u + column];
    }
    workgroupBarrier();
    if local < held {
        for (var column = 0u; column < words; column += 1u) {
            sh_rest[column * shape.y + first + local] = tile[local * (words | 1u) + column];
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
    for (var k = 0u; k < 2u; k += 1u) {
        gradient_rows[means2d_at() + 2u * i + k] = gradient_means2d[k * stride + i];
    }
}

@compute @workgroup_size(64)
fn store_sh(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) count: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = BLOCK * group_number(id, count);
    let words = 3u * (shape.z - 1u);
    let held = min(BLOCK, max(shape.x, first) - first);
    if local < held {
        for (var column = 0u; column < words; column += 1u) {
            tile[local * (words | 1u) + column] = gradient_sh[column * shape.y + first + local];
        }
    }
    workgroupBarrier();
    for (var at = local; at < held * words; at += BLOCK) {
        let row = at / words;
        let column = at - row * words;
        gradient_rows[coefficients_at() + 3u * shape.z * (first + row) + 3u + column] =
            tile[row * (words | 1u) + column];
    }
}
