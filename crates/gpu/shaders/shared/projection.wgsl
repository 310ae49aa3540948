// From a Gaussian in the world to an ellipse on the image, for `project` and for the backward pass in `update`. CPU
// version: cpu/src/projection.rs. Reference in f64: dapple_reference::project.
// After EWA splatting (Zwicker et al. 2001) and 3DGS (Kerbl et al. 2023):
// 1. p = R (m - c), c in two floats; u = p.x / p.z, v = p.y / p.z; centre = (fx u + cx, fy v + cy).
// 2. M = rotation(q) diag(exp(log scales)), so that the covariance is M M^T.
// 3. T = J R with J the Jacobian of the projection, u and v clamped to the Jacobian's range.
// 4. U = T M; cov2d = U U^T + dilation. Its determinant is |U0 x U1|^2 + dilation (|U0|^2 + |U1|^2) + dilation^2
//    (Lagrange's identity), which does not cancel for needles.
// 5. conic = cov2d^-1.
// The centre of step 1 and the T of step 3 are those of a pinhole. Each camera model has a file for both: shared/pinhole,
// in permutation LENS shared/lens, in permutation EQUIRECT shared/equirectangular, in CYLINDER
// shared/cylindrical.
//
// In permutation ANTIALIAS, shared/antialias filters between steps 2 and 3 and after step 4.
//
// The importing shader declares `geometry: array<f32>`, with ANTIALIAS `filter_3d: array<f32>` too, and imports
// shared/step and shared/planes.
#import shared/centre
#import shared/geometry
#if ANTIALIAS
#import shared/antialias
#endif

#if LENS
#import shared/lens
#endif
#if EQUIRECT
#import shared/equirectangular
#endif
#if CYLINDER
#import shared/cylindrical
#endif
#if PINHOLE
#import shared/pinhole
#endif

// From the backward pass of a camera model.
struct CameraGradient {
    // By the centre, camera coordinates.
    point: vec3f,
    // By a small rotation of the camera, through T alone.
    omega: vec3f,
}

// A Gaussian as stored: logarithms of scales, quaternion (w, x, y, z) of any length, logit.
struct Gaussian {
    mean: vec3f,
    log_scales: vec3f,
    quat: vec4f,
    logit: f32,
#if ANTIALIAS
    // Standard deviation of its 3D filter.
    deviation: f32,
#endif
}

struct Projection {
    // Centre, camera coordinates.
    point: vec3f,
    // Centre, pixels.
    mean2d: vec2f,
    // Diagonal of the dilated 2D covariance.
    variance: vec2f,
    // Inverse of the dilated 2D covariance: xx, xy, yy.
    conic: vec3f,
    opacity: f32,
    // Step 2: standard deviations; the unit quaternion, and 1 / |quat| of the stored quaternion; the rotation by
    // columns, R_j; M by columns, scales_j R_j.
    scales: vec3f,
    quat: vec4f,
    inverse_norm: f32,
    rotation: mat3x3f,
    m: mat3x3f,
    // Step 3: 1 / z; x/z and y/z (not of a panorama), and the slopes at which the Jacobian is evaluated; the rows of T.
    inverse_z: f32,
    uv: vec2f,
    uv_clamped: vec2f,
    t0: vec3f,
    t1: vec3f,
    // Step 4: the rows of U.
    u0: vec3f,
    u1: vec3f,
    // True if the covariance can be inverted in f32.
    is_sound: bool,
#if ANTIALIAS
    shares2: vec3f,
    area: Area,
#endif
}

// Least square of a quaternion's length, f32's smallest normal number. A shorter quaternion has no direction.
const QUAT_NORM2_MIN: f32 = 1.17549435e-38;
// Logits below this value count as an opacity of 0. exp of the negated value stays finite.
const LOGIT_MIN: f32 = -80.0;

// Returns true if the number is neither NaN nor infinite. Tests bits: WGSL lets compilers assume that comparisons meet
// neither.
fn is_finite_bits(magnitude: u32) -> bool {
    return magnitude < 0x7f800000u;
}

fn magnitude(v: f32) -> u32 {
    return bitcast<u32>(v) & 0x7fffffffu;
}

fn magnitude3(v: vec3f) -> u32 {
    let bits = bitcast<vec3u>(v) & vec3u(0x7fffffffu);
    return max(bits.x, max(bits.y, bits.z));
}

fn magnitude4(v: vec4f) -> u32 {
    let bits = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

fn load_gaussian(i: u32, capacity: u32) -> Gaussian {
    return Gaussian(
        geometry3(PLANE_MEAN, i, capacity),
        geometry3(PLANE_SCALE, i, capacity),
        vec4f(
            geometry_at(PLANE_QUAT, i, capacity),
            geometry3(PLANE_QUAT + 1u, i, capacity),
        ),
        geometry_at(PLANE_OPACITY, i, capacity),
#if ANTIALIAS
        filter_3d[i],
#endif
    );
}

// Returns true if every parameter is finite and the quaternion has a direction.
fn is_valid_gaussian(g: Gaussian) -> bool {
    let most = max(
        max(magnitude3(g.mean), magnitude3(g.log_scales)),
        max(magnitude4(g.quat), magnitude(g.logit)),
    );
    return is_finite_bits(most) && dot(g.quat, g.quat) >= QUAT_NORM2_MIN;
}

// Runs steps 1 to 5 for a valid Gaussian in front of the camera; `point` is its centre in camera coordinates.
fn project_gaussian(g: Gaussian, point: vec3f, view: View) -> Projection {
    var p: Projection;
    p.point = point;
    camera_project(&p, view);
    p.opacity = 1.0 / (1.0 + exp(-max(g.logit, LOGIT_MIN)));

    p.inverse_norm = 1.0 / sqrt(dot(g.quat, g.quat));
    p.quat = g.quat * p.inverse_norm;
    p.scales = exp(g.log_scales);
#if ANTIALIAS
    let smoothed = smooth_scales(p.scales, g.deviation);
    p.scales = smoothed.scales;
    p.shares2 = smoothed.shares2;
    p.opacity *= smoothed.factor;
#endif
    p.rotation = rotation_of(p.quat);
    p.m = mat3x3f(
        p.rotation[0] * p.scales.x,
        p.rotation[1] * p.scales.y,
        p.rotation[2] * p.scales.z,
    );

    p.u0 = p.t0 * p.m;
    p.u1 = p.t1 * p.m;

    let uu0 = dot(p.u0, p.u0);
    let uu1 = dot(p.u1, p.u1);
#if ANTIALIAS
    p.area = area_of(p.t0, p.t1, p.rotation, p.scales);
    let normal = p.area.normal;
#else
    let normal = cross(p.u0, p.u1);
#endif
    let dilation = DILATION + step.extra_dilation;
    let determinant = dot(normal, normal) + dilation * (uu0 + uu1) + dilation * dilation;
    let inverse = 1.0 / determinant;
    p.variance = vec2f(uu0 + dilation, uu1 + dilation);
    p.conic = vec3f(p.variance.y, -dot(p.u0, p.u1), p.variance.x) * inverse;
    p.is_sound = is_finite_bits(magnitude(determinant));
#if ANTIALIAS
    p.opacity *= sqrt(dot(normal, normal) * inverse);
#endif
    return p;
}
