// `finite`: counts the Gaussians that have a NaN or infinite parameter, into the report of the step that has just been
// written, every FINITE_EVERY steps. One invocation per Gaussian:
// 1. Find the non-finite tensors of the Gaussian, a bit for each in the order of engine::NonFiniteReport::TENSORS.
// 2. A workgroup adds up; if it found a non-finite tensor, it adds to the report. A sum of integers does not depend on
//    the order.
// Nothing else is written, so the run is the same with and without this kernel. CPU version: cpu/src/stages/finite.rs.
//
// Bindings: state; geometry, sh_rest, the parameters; reports, in which the entry is step.report.

#import shared/step
#import shared/groups
#import shared/planes

@group(0) @binding(0) var<storage, read> state_read: State;
@group(0) @binding(1) var<storage, read> geometry: array<u32>;
@group(0) @binding(2) var<storage, read> sh_rest: array<u32>;
@group(0) @binding(3) var<storage, read_write> reports: array<atomic<u32>>;

#import shared/finite

var<workgroup> gaussians: atomic<u32>;
var<workgroup> tensors: atomic<u32>;

// Returns `bit` unless planes `first` to before `end` of Gaussian i are finite.
fn broken_planes(i: u32, first: u32, end: u32, bit: u32) -> u32 {
    for (var p = first; p < end; p++) {
        if !is_finite(plane(p, i)) {
            return bit;
        }
    }
    return 0u;
}

fn broken_sh(i: u32, bit: u32) -> u32 {
    let words = arrayLength(&sh_rest) / state_read.capacity;
    for (var p = 0u; p < words; p++) {
        if !is_sh_finite(sh_rest[p * state_read.capacity + i]) {
            return bit;
        }
    }
    return 0u;
}

@compute @workgroup_size(256)
fn finite(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    // Workgroup memory is not cleared elsewhere.
    if local == 0u {
        atomicStore(&gaussians, 0u);
        atomicStore(&tensors, 0u);
    }
    workgroupBarrier();
    let i = group_number(id, dispatched) * 256u + local;
    if state_read.halted == 0u && i < state_read.gaussians {
        let found = broken_planes(i, PLANE_MEAN, PLANE_SCALE, 1u)
            | broken_planes(i, PLANE_SCALE, PLANE_QUAT, 2u)
            | broken_planes(i, PLANE_QUAT, PLANE_OPACITY, 4u)
            | broken_planes(i, PLANE_OPACITY, PLANE_SH0, 8u)
            | broken_planes(i, PLANE_SH0, GEOMETRY_PLANES, 16u)
            | broken_sh(i, 32u);
        if found != 0u {
            atomicAdd(&gaussians, 1u);
            atomicOr(&tensors, found);
        }
    }
    workgroupBarrier();
    if local == 0u && atomicLoad(&gaussians) > 0u {
        let entry = step.report * REPORT_WORDS;
        atomicAdd(&reports[entry + REPORT_BROKEN], atomicLoad(&gaussians));
        atomicOr(&reports[entry + REPORT_BROKEN_TENSORS], atomicLoad(&tensors));
    }
}
