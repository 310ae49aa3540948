// Second half of pose refinement, after `update`: steps the camera of the step's view. One workgroup.
// 1. Add up the sums that the workgroups of pose_sums.wgsl wrote, in a fixed order.
// 2. Adam, with the view's own moments and bias corrections. The weights of the moments are summed like the moments,
//    with a gradient of one.
// 3. Replace the pose p by exp(omega) p + t and write it into `views`, from which the next step on this view reads it:
//    nothing is read back. Rows are made orthonormal again, so that they do not drift; the centre stays in two floats.
// A non-finite derivative changes nothing, and neither does a halted step.
// CPU version: cpu/src/features/poses/kernels.rs. Reference: dapple_reference::refine_pose.
#import shared/step
#import shared/is_number
#import shared/tree_sum

@group(0) @binding(0) var<storage, read_write> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
// Six floats for every 256 Gaussians.
@group(0) @binding(2) var<storage, read> pose_sums: array<f32>;
// By view: first moments 6, second moments 6, weights of both.
@group(0) @binding(3) var<storage, read_write> pose_moments: array<f32>;

const POSE_MOMENTS: u32 = 14u;

// Runs step 2 for three of the six numbers and returns the motion.
fn adam3(at: u32, gradient: vec3f, rate: f32, weights: vec2f) -> vec3f {
    var motion: vec3f;
    for (var k = 0u; k < 3u; k++) {
        let g = gradient[k];
        let first = step.beta1 * pose_moments[at + k] + (1.0 - step.beta1) * g;
        let second = step.beta2 * pose_moments[at + 6u + k] + (1.0 - step.beta2) * g * g;
        pose_moments[at + k] = first;
        pose_moments[at + 6u + k] = second;
        motion[k] = -rate * (first / weights.x) / (sqrt(second / weights.y) + step.epsilon);
    }
    return motion;
}

// Returns exp(omega) p by Rodrigues' formula. sin(a) / a and (1 - cos(a)) / a^2 are series, exact to the last place for
// the angles of a step, below 0.1.
fn turned(p: vec3f, omega: vec3f) -> vec3f {
    let square = dot(omega, omega);
    let a = 1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0));
    let b = 0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0));
    let once = cross(omega, p);
    return p + a * once + b * cross(omega, once);
}

// Runs step 3.
fn move_camera(omega: vec3f, shift: vec3f) {
    let old = views[step.view];
    // Columns of the rotation: the world's axes in camera coordinates.
    let x = turned(vec3f(old.row0.x, old.row1.x, old.row2.x), omega);
    let y = turned(vec3f(old.row0.y, old.row1.y, old.row2.y), omega);
    let z = turned(vec3f(old.row0.z, old.row1.z, old.row2.z), omega);
    let r0 = normalize(vec3f(x.x, y.x, z.x));
    let along = vec3f(x.y, y.y, z.y);
    let r1 = normalize(along - r0 * dot(r0, along));
    let r2 = cross(r0, r1);
    let rest = vec3f(old.row0.w, old.row1.w, old.row2.w)
        - (r0 * shift.x + r1 * shift.y + r2 * shift.z);
    // The fine part takes the rounding error of the sum (Dekker 1971).
    let centre = old.centre.xyz + rest;
    let left = rest - (centre - old.centre.xyz);
    views[step.view].centre = vec4f(centre, old.centre.w);
    views[step.view].row0 = vec4f(r0, left.x);
    views[step.view].row1 = vec4f(r1, left.y);
    views[step.view].row2 = vec4f(r2, left.z);
}

@compute @workgroup_size(256)
fn poses(@builtin(local_invocation_index) local: u32) {
    if state.halted != 0u {
        return;
    }
    let count = (state.gaussians + 255u) / 256u;
    var omega = vec3f(0.0);
    var shift = vec3f(0.0);
    for (var w = local; w < count; w += 256u) {
        let at = 6u * w;
        omega += vec3f(pose_sums[at], pose_sums[at + 1u], pose_sums[at + 2u]);
        shift += vec3f(pose_sums[at + 3u], pose_sums[at + 4u], pose_sums[at + 5u]);
    }
    sum_six(local, omega, shift);
    if local != 0u {
        return;
    }
    let d_omega = vec3f(six_sums[0], six_sums[256], six_sums[512]);
    let d_shift = vec3f(six_sums[768], six_sums[1024], six_sums[1280]);
    // The sum of the magnitudes is finite if all six are.
    let size = abs(d_omega) + abs(d_shift);
    if !is_number(size.x + size.y + size.z) {
        return;
    }
    // Entry 0 of `views` is for renders.
    let at = POSE_MOMENTS * (step.view - 1u);
    let weights = vec2f(
        step.beta1 * pose_moments[at + 12u] + (1.0 - step.beta1),
        step.beta2 * pose_moments[at + 13u] + (1.0 - step.beta2),
    );
    pose_moments[at + 12u] = weights.x;
    pose_moments[at + 13u] = weights.y;
    move_camera(
        adam3(at, d_omega, step.rate_turn, weights),
        adam3(at + 3u, d_shift, step.rate_shift, weights),
    );
}
