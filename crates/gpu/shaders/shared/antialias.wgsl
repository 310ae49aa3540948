// Anti-aliasing after Mip-Splatting (Yu et al. 2024, arXiv:2311.16493), permutation ANTIALIAS of the shaders that
// project and of their backward pass. There DILATION is MIP_DILATION. CPU version: cpu/src/antialias.rs. Reference:
// dapple_reference::{with_filter_3d, project}.
//
// The 3D filter, before projection:
// 1. Scales become s' = sqrt(s^2 + deviation^2), the opacity is multiplied by the product of the shares c = s / s'.
// 2. Backward: dL/dln s = c^2 dL/dln s' + (1 - c^2) dL/dln o'.
//
// The 2D Mip filter, after projection:
// 3. The area of the undilated ellipse is |N| = |U0 x U1|, with U = T R S, so that N's component k is s0 s1 s2 / s_k
//    times that of R^T (T0 x T1): nothing cancels for needles.
// 4. The opacity is multiplied by |N| / sqrt(det cov2d). The product is below ALPHA_MIN where |N| is near 0: such a
//    Gaussian is invisible, and its gradient is zero.
// 5. Backward, with w = dL/dln o and W_k = w N_k (s0 s1 s2 / s_k) / |N|^2: to the scales' logarithms w (1 - N_k^2 /
//    |N|^2); to column k of R W_k (T0 x T1); to T0 x T1 the sum of W_k R_k, and from there to its factors. The part
//    through det cov2d is -1/2 w conic, to cov2d.

struct Smoothed {
    scales: vec3f,
    // Squares of the shares.
    shares2: vec3f,
    // Factor of the opacity.
    factor: f32,
}

// Step 1. Starts from the larger of the two numbers: their squares can exceed the range of f32.
fn smooth_scales(scales: vec3f, deviation: f32) -> Smoothed {
    if !(deviation > 0.0) {
        return Smoothed(scales, vec3f(1.0), 1.0);
    }
    let larger = max(scales, vec3f(deviation));
    let ratio = min(scales, vec3f(deviation)) / larger;
    let wider = larger * sqrt(fma(ratio, ratio, vec3f(1.0)));
    let shares = scales / wider;
    return Smoothed(wider, shares * shares, shares.x * shares.y * shares.z);
}

// Step 2.
fn smooth_backward(shares2: vec3f, weight: f32, d_log_scales: vec3f) -> vec3f {
    return shares2 * d_log_scales + (vec3f(1.0) - shares2) * weight;
}

// Result of step 3.
struct Area {
    // T0 x T1.
    ray: vec3f,
    // s0 s1 s2 / s_k.
    faces: vec3f,
    // N.
    normal: vec3f,
}

fn area_of(t0: vec3f, t1: vec3f, rotation: mat3x3f, scales: vec3f) -> Area {
    let ray = cross(t0, t1);
    let faces = scales.yzx * scales.zxy;
    return Area(ray, faces, faces * (ray * rotation));
}

// Gradients of step 5, without the part through det cov2d.
struct AreaGradient {
    log_scales: vec3f,
    // By columns.
    rotation: mat3x3f,
    t0: vec3f,
    t1: vec3f,
}

fn area_backward(
    area: Area,
    weight: f32,
    rotation: mat3x3f,
    t0: vec3f,
    t1: vec3f,
) -> AreaGradient {
    let along = area.normal * (weight / dot(area.normal, area.normal));
    let by_column = along * area.faces;
    let by_ray = rotation * by_column;
    return AreaGradient(
        vec3f(weight) - along * area.normal,
        mat3x3f(area.ray * by_column.x, area.ray * by_column.y, area.ray * by_column.z),
        cross(t1, by_ray),
        cross(by_ray, t0),
    );
}
