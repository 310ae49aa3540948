// Appearance MLP, after `mlp_gather`: one step of Adam for the network and for the embedding of the step's view.
//
// `mlp_reduce`: adds up the sums of the workgroups, in order: 16 sums a workgroup, the workgroups' parts in 16 shares.
// `mlp_advance`, one workgroup: from the sums by [output][unit], the derivatives by W2 and by the factors of units;
// the pull of the embedding to zero; Adam. The bias corrections count the network's steps and the view's own: between
// two steps on a view its moments do not change. A non-finite number changes nothing, nor does a halted step.
//
// mlp_seen: steps of the network, then by view. mlp_moments: first and second moments of the network, then first and
// second moments of each view's embedding. CPU version and reference: dapple_engine::appearance_mlp::step.
#import shared/step
#import shared/rests
#import shared/groups
#import shared/parameters
#import shared/mlp

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> mlp_partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> mlp_gradient: array<f32>;
@group(0) @binding(3) var<storage, read_write> mlp: array<f32>;
@group(0) @binding(4) var<storage, read_write> mlp_moments: array<f32>;
@group(0) @binding(5) var<storage, read_write> mlp_seen: array<u32>;

var<workgroup> shares: array<f32, 256>;

@compute @workgroup_size(256)
fn mlp_reduce(
    @builtin(workgroup_id) id: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let column = 16u * id.x + t % 16u;
    let share = t / 16u;
    var sum = 0.0;
    for (var w = 0u; w < MLP_GROUPS / 16u; w++) {
        sum += mlp_partials[MLP_NETWORK * (share * (MLP_GROUPS / 16u) + w) + column];
    }
    shares[t] = sum;
    workgroupBarrier();
    if t < 16u {
        var total = 0.0;
        for (var s = 0u; s < 16u; s++) {
            total += shares[16u * s + t];
        }
        mlp_gradient[column] = total;
    }
}

// Steps the number at `at` of `mlp`, and its moments.
fn advance(at: u32, first: u32, second: u32, derivative: f32, rate: f32, inverse2: f32) {
    let moved = adam_rested(mlp_moments[first], mlp_moments[second], derivative, rate, inverse2);
    mlp_moments[first] = moved.m;
    mlp_moments[second] = moved.v;
    mlp[at] -= moved.change;
}

@compute @workgroup_size(256)
fn mlp_advance(@builtin(local_invocation_index) t: u32) {
    let is_halted = state.halted != 0u;
    let w1 = MLP_HIDDEN * MLP_ENCODED;
    let view = step.view - 1u;
    let code = 4u * MLP_CODES + MLP_CODE * view;
    let seen = mlp_seen[step.view] + 1u;
    let steps = mlp_seen[0] + 1u;
    // By the embedding: needs W2 before its step.
    var by_code = 0.0;
    if t < MLP_HIDDEN {
        for (var o = 0u; o < 6u; o++) {
            let k = MLP_HIDDEN * o + t;
            by_code += mlp_gradient[w1 + k] * mlp[4u * MLP_W2 + k];
        }
        by_code += 2.0 * parameters.mlp_neutral / f32(MLP_HIDDEN) * mlp[code + t];
    } else if t < MLP_CODE {
        by_code = mlp_gradient[MLP_ENCODED * (t - MLP_HIDDEN)];
    }
    // By W2: needs the embedding before its step.
    var by_second = 0.0;
    if t < 6u * MLP_HIDDEN {
        by_second = mlp_gradient[w1 + t] * mlp[code + t % MLP_HIDDEN];
    }
    storageBarrier();
    workgroupBarrier();
    if is_halted {
        return;
    }
    let rate = parameters.mlp_network_rate / correction(step.beta1, steps);
    let inverse2 = 1.0 / correction(step.beta2, steps);
    for (var i = t; i < w1; i += 256u) {
        advance(4u + i, i, MLP_NETWORK + i, mlp_gradient[i], rate, inverse2);
    }
    if t < 6u * MLP_HIDDEN {
        let i = w1 + t;
        advance(4u + i, i, MLP_NETWORK + i, by_second, rate, inverse2);
    }
    if t < MLP_CODE {
        let first = 2u * MLP_NETWORK + 2u * MLP_CODE * view + t;
        let own_rate = parameters.mlp_code_rate / correction(step.beta1, seen);
        let own_inverse2 = 1.0 / correction(step.beta2, seen);
        advance(code + t, first, first + MLP_CODE, by_code, own_rate, own_inverse2);
    }
    if t == 0u {
        mlp_seen[0] = steps;
        mlp_seen[step.view] = seen;
    }
}
