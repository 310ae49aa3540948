// First half of pose refinement, before `update` changes the Gaussians: the derivative by the camera's motion, summed
// over workgroups. One invocation per Gaussian, 256 a workgroup.
// 1. From the sums of a visible Gaussian's slots, by slot_sums.wgsl, go backward: shared/gaussian_backward. The other
//    derivatives are dropped: `update` computes them again. This kernel reads a sixth of the bytes that `update` moves,
//    and `update` needs no change.
// 2. Add up by a fixed tree; workgroup w writes six floats of pose_sums, (omega, t), at 6 w.
// CPU version: cpu/src/features/poses/kernels.rs. Reference: dapple_reference::gradients.
#import shared/step
#import shared/groups
#import shared/planes

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> geometry: array<f32>;
@group(0) @binding(3) var<storage, read> sh_rest: array<u32>;
// As in gradients.wgsl.
@group(0) @binding(4) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(5) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(6) var<storage, read> splat_gradients: array<f32>;
// Out.
@group(0) @binding(7) var<storage, read_write> pose_sums: array<f32>;

#if LENS
// In: the views' lenses.
@group(0) @binding(8) var<storage, read> lenses: array<Lens>;
#endif
#if ANTIALIAS
// Standard deviations of 3D filters, by Gaussian: shared/antialias.
@group(0) @binding(9) var<storage, read> filter_3d: array<f32>;
#endif

#if DEPTH
// By place, written by extra_sums.wgsl.
@group(0) @binding(10) var<storage, read> extra_gradients: array<f32>;
#endif

#if MLP
// By place, written by `project`.
@group(0) @binding(11) var<storage, read> looked: array<vec4f>;
#endif

#if NORMALS
// By place, written by the second slot_sums.wgsl and normal_sums.wgsl.
@group(0) @binding(12) var<storage, read> normal_gradients: array<f32>;
#endif

#import shared/slot_sums
#import shared/pose_sum

#import shared/sh_read

// Drops the derivatives of the coefficients.
fn sh_take(j: u32, i: u32, unit: ShPair, odd: vec3f, even: vec3f) {}

fn sh_take_odd(j: u32, i: u32, unit: ShPair, odd: vec3f) {}

@compute @workgroup_size(256)
fn pose_sum(
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
        if place > 0u {
            let view = views[step.view];
            let old = load_gaussian(i, state.capacity);
            sum = pose_gradient(old, gaussian_backward(i, place, old, view), view);
        }
    }
    sum_six(local, sum.omega, sum.shift);
    if local < 6u {
        pose_sums[6u * number + local] = six_sums[256u * local];
    }
}
