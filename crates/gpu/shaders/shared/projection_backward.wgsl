// The chain rule through project_gaussian, from the sums of a Gaussian's slots. CPU version: `project_backward` in
// cpu/src/projection.rs. Reference in f64: dapple_reference::project_backward.
// 1. Moments to the screen: alpha = opacity exp(-1/2 d^T conic d), d = pixel - centre, so that dL/dcentre = conic (sx,
//    sy) and dL/dconic = -1/2 (sxx, 2 sxy, syy).
// 2. d cov2d = -conic d(conic) conic; cov2d = U U^T, so that dL/dU = 2 dL/dcov2d U.
// 3. U = T M: to M, and from there to scales, rotation and quaternion; to T.
// 4. To the point, and to the camera's rotation, by the file of the camera model: see shared/projection.
// Ye & Kanazawa, "Mathematical Supplement for the gsplat Library" (arXiv:2312.02121).
#import shared/projection

struct ScreenGradient {
    // By the centre, pixels.
    mean2d: vec2f,
    // By xx, xy and yy of the conic. xy occurs twice in the matrix; this is the share of one occurrence.
    conic: vec3f,
#if ANTIALIAS
    // By the logarithm of the opacity.
    weight: f32,
#endif
}

struct GeometryGradient {
    // By the centre, world.
    mean: vec3f,
    log_scales: vec3f,
    // By the quaternion as stored.
    quat: vec4f,
    // By the centre, camera.
    point: vec3f,
    // By a small rotation of the camera, through T only.
    omega: vec3f,
}

// Runs step 1; `linear` is (s, s dx, s dy), `quadratic` (s dx^2, s dx dy, s dy^2).
fn screen_gradient(p: Projection, linear: vec3f, quadratic: vec3f) -> ScreenGradient {
    return ScreenGradient(
        vec2f(dot(p.conic.xy, linear.yz), dot(p.conic.yz, linear.yz)),
        -0.5 * quadratic,
#if ANTIALIAS
        linear.x,
#endif
    );
}

// Runs steps 2 to 4.
fn project_backward(p: Projection, view: View, screen: ScreenGradient) -> GeometryGradient {
    let conic = mat2x2f(p.conic.xy, p.conic.yz);
    let through_conic = conic * mat2x2f(screen.conic.xy, screen.conic.yz) * conic;
#if ANTIALIAS
    let h = through_conic + conic * (0.5 * screen.weight);
#else
    let h = through_conic;
#endif
    let du0 = -2.0 * (h[0].x * p.u0 + h[1].x * p.u1);
    let du1 = -2.0 * (h[1].x * p.u0 + h[1].y * p.u1);
    // By columns, like M.
    let dm = mat3x3f(
        p.t0 * du0.x + p.t1 * du1.x,
        p.t0 * du0.y + p.t1 * du1.y,
        p.t0 * du0.z + p.t1 * du1.z,
    );
    let dr = mat3x3f(dm[0] * p.scales.x, dm[1] * p.scales.y, dm[2] * p.scales.z);
#if ANTIALIAS
    let area = area_backward(p.area, screen.weight, p.rotation, p.t0, p.t1);
    let dt0 = p.m * du0 + area.t0;
    let dt1 = p.m * du1 + area.t1;
#else
    let dt0 = p.m * du0;
    let dt1 = p.m * du1;
#endif

    var g: GeometryGradient;
    g.log_scales = vec3f(dot(dm[0], p.m[0]), dot(dm[1], p.m[1]), dot(dm[2], p.m[2]));
#if ANTIALIAS
    g.log_scales = smooth_backward(p.shares2, screen.weight, g.log_scales + area.log_scales);
    g.quat = quat_backward(p, dr + area.rotation);
#else
    g.quat = quat_backward(p, dr);
#endif

    let back = camera_backward(p, view, screen.mean2d, dt0, dt1);
    g.point = back.point;
    g.mean = view.row0.xyz * g.point.x + view.row1.xyz * g.point.y + view.row2.xyz * g.point.z;
    g.omega = back.omega;
    return g;
}

// From dL/d(rotation matrix), by columns, to dL/d(stored quaternion): through the matrix's entries, then through the
// normalisation, which removes the part along the quaternion.
fn quat_backward(p: Projection, dr: mat3x3f) -> vec4f {
    let w = p.quat.x;
    let v = p.quat.yzw;
    // Twice the antisymmetric part, as a vector; and the symmetric sums xy, xz, yz.
    let turn = vec3f(dr[1].z - dr[2].y, dr[2].x - dr[0].z, dr[0].y - dr[1].x);
    let xy = dr[0].y + dr[1].x;
    let xz = dr[0].z + dr[2].x;
    let yz = dr[1].z + dr[2].y;
    let diagonal = vec3f(dr[1].y + dr[2].z, dr[0].x + dr[2].z, dr[0].x + dr[1].y);
    let mixed = vec3f(v.y * xy + v.z * xz, v.x * xy + v.z * yz, v.x * xz + v.y * yz);
    let d = vec4f(
        2.0 * dot(v, turn),
        2.0 * (mixed + w * turn) - 4.0 * v * diagonal,
    );
    return (d - p.quat * dot(p.quat, d)) * p.inverse_norm;
}

// alpha is proportional to the opacity: dL/dlogit = s (1 - opacity). Computed from the logit, because the difference
// from 1 would cancel.
fn logit_gradient(s: f32, logit: f32) -> f32 {
    return s / (1.0 + exp(min(logit, -LOGIT_MIN)));
}
