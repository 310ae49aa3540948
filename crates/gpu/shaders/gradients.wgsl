// `gradients`: computes the gradients of `update` and writes them out instead of stepping. One invocation per Gaussian.
// 1. From the sums of the Gaussian's slots, by slot_sums.wgsl, go backward: shared/gaussian_backward.
// 2. Write the gradients as planes, like the parameters: gradient_geometry [14, capacity], gradient_sh [(K - 1) * 3,
//    capacity] (zero beyond the active degree), gradient_means2d [2, capacity]. Always f32. In permutation ABSOLUTE
//    gradient_means2d has two more planes, the sums of absolute values.
// 3. Add up the workgroup's gradients of the camera's pose by a fixed tree; workgroup w writes six floats of
//    gradient_pose, (omega, t), at 6 w. The host adds them up in order.
// With FLAG_ADD_GRADIENTS, step 2 adds to the gradients of the step or call before, except those by projected centres, and
// skips Gaussians that the camera does not show.
// In permutation BATCH, a step of a batch of several: step 2 writes no gradient_means2d, and adds to the statistics of
// density control. There is no step 3.
// In permutation SHARDED of it, one invocation per visible Gaussian of this engine's part, `shown_indices` and `sums` are of
// shipments: parts.wgsl.
// CPU version: `run_gradients` in cpu/src/stages/update.rs. Reference: dapple_reference::gradients.
#import shared/step
#import shared/groups
#import shared/planes

// In: camera, counts, parameters; by Gaussian, 0 = invisible, or one more than its place among the visible Gaussians;
// by place, the colour and the sums of the slots.
@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read> sh_rest: array<u32>;
#if SHARDED
@group(0) @binding(5) var<storage, read> shown_indices: array<u32>;
@group(0) @binding(6) var<storage, read> sums: array<f32>;
#else
@group(0) @binding(4) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(5) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(6) var<storage, read> splat_gradients: array<f32>;
#endif
// Out, or in and out.
@group(0) @binding(7) var<storage, read_write> gradient_geometry: array<f32>;
@group(0) @binding(8) var<storage, read_write> gradient_sh: array<f32>;
#if BATCH
@group(0) @binding(9) var<storage, read_write> stats: array<f32>;
#else
@group(0) @binding(9) var<storage, read_write> gradient_means2d: array<f32>;
@group(0) @binding(10) var<storage, read_write> gradient_pose: array<f32>;
#endif
#if LENS
// In: the views' lenses.
@group(0) @binding(11) var<storage, read> lenses: array<Lens>;
#endif

#if ANTIALIAS
// Standard deviations of 3D filters, by Gaussian: shared/antialias.
@group(0) @binding(12) var<storage, read> filter_3d: array<f32>;
#endif
#if EXTRA_SLOTS
// By place, written by extra_sums.wgsl.
@group(0) @binding(13) var<storage, read> extra_gradients: array<f32>;
#endif
#if MLP
// By place, written by `project`. Unused outside of batches: no caller requests gradients through the appearance MLP.
@group(0) @binding(14) var<storage, read> looked: array<vec4f>;
#endif
#if NORMALS
// By place, written by the second slot_sums.wgsl and normal_sums.wgsl. Unused outside of batches.
@group(0) @binding(15) var<storage, read> normal_gradients: array<f32>;
#endif

#if SHARDED
#import shared/shipped_sums
#else
#import shared/slot_sums
#if ABSOLUTE
#import shared/absolute_sums
#endif
#endif
#if BATCH
#import shared/density
#import shared/gaussian_backward
#else
#import shared/pose_sum
#endif
#import shared/sh_read

fn sh_take(j: u32, i: u32, unit: ShPair, odd: vec3f, even: vec3f) {
    sh_take_odd(j, i, unit, odd);
    put_sh(6u * j + 3u, i, even);
}

fn sh_take_odd(j: u32, i: u32, unit: ShPair, odd: vec3f) {
    put_sh(6u * j, i, odd);
}

fn put_sh(plane: u32, i: u32, value: vec3f) {
    put_sh_number(plane, i, value.x);
    put_sh_number(plane + 1u, i, value.y);
    put_sh_number(plane + 2u, i, value.z);
}

fn put_geometry(plane: u32, i: u32, value: vec3f) {
    put_number(plane, i, value.x);
    put_number(plane + 1u, i, value.y);
    put_number(plane + 2u, i, value.z);
}

// Returns true if gradients are added to those of the step or call before.
fn adds() -> bool {
    return (step.flags & FLAG_ADD_GRADIENTS) != 0u;
}

fn put_sh_number(plane: u32, i: u32, value: f32) {
    let at = plane * state.capacity + i;
    if adds() {
        gradient_sh[at] += value;
    } else {
        gradient_sh[at] = value;
    }
}

fn put_number(plane: u32, i: u32, value: f32) {
    let at = plane * state.capacity + i;
    if adds() {
        gradient_geometry[at] += value;
    } else {
        gradient_geometry[at] = value;
    }
}

#if !BATCH
fn put_means2d(i: u32, place: u32, value: vec2f) {
    gradient_means2d[i] = value.x;
    gradient_means2d[state.capacity + i] = value.y;
#if ABSOLUTE
    let sums = select(vec2f(), absolute_sums(max(place, 1u)), place > 0u);
    gradient_means2d[2u * state.capacity + i] = sums.x;
    gradient_means2d[3u * state.capacity + i] = sums.y;
#endif
}
#endif

// Runs step 2, without SH rest.
fn put(i: u32, place: u32, g: GaussianGradient) {
    put_geometry(PLANE_MEAN, i, g.geometry.mean);
    put_geometry(PLANE_SCALE, i, g.geometry.log_scales);
    put_number(PLANE_QUAT, i, g.geometry.quat.x);
    put_geometry(PLANE_QUAT + 1u, i, g.geometry.quat.yzw);
    put_number(PLANE_OPACITY, i, g.logit);
    put_geometry(PLANE_SH0, i, g.sh0);
#if !BATCH
    put_means2d(i, place, g.mean2d);
#endif
    if adds() {
        return;
    }
    let used = 3u * ((step.sh_degree + 1u) * (step.sh_degree + 1u) - 1u);
    for (var p = used; p < arrayLength(&gradient_sh) / state.capacity; p++) {
        gradient_sh[p * state.capacity + i] = 0.0;
    }
}

#if BATCH
#if SHARDED
@compute @workgroup_size(256)
fn add_rows(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let c = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || c >= step.shown {
        return;
    }
    let i = shown_indices[c];
    if i >= state.gaussians {
        return;
    }
    let view = views[step.view];
    let g = gaussian_backward(i, c + 1u, load_gaussian(i, state.capacity), view);
    put(i, c + 1u, g);
    note_density(i, c + 1u, view, g.mean2d);
}
#else
@compute @workgroup_size(256)
fn gradients(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * 256u + local;
    if state.halted != 0u || i >= state.gaussians {
        return;
    }
    let place = visible_rank[i];
    if place == 0u && adds() {
        return;
    }
    let view = views[step.view];
    let g = gaussian_backward(i, place, load_gaussian(i, state.capacity), view);
    put(i, place, g);
    if place > 0u {
        note_density(i, place, view, g.mean2d);
    }
}
#endif
#else
@compute @workgroup_size(256)
fn gradients(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let number = group_number(id, dispatched);
    if state.halted != 0u || number * 256u >= state.gaussians {
        return;
    }
    let i = number * 256u + local;
    var sum = PoseGradient();
    if i < state.gaussians {
        let place = visible_rank[i];
        if place == 0u && adds() {
            put_means2d(i, 0u, vec2f());
        } else {
            let view = views[step.view];
            let old = load_gaussian(i, state.capacity);
            let g = gaussian_backward(i, place, old, view);
            put(i, place, g);
            if place > 0u {
                sum = pose_gradient(old, g, view);
            }
        }
    }
    sum_six(local, sum.omega, sum.shift);
    if local < 6u {
        gradient_pose[6u * number + local] = six_sums[256u * local];
    }
}
#endif
