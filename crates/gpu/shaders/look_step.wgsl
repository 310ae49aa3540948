// Appearance MLP, after `look_gather`: one step of Adam for the network and for the embedding of the step's view.
//
// `look_reduce`: adds up the sums of the workgroups, in order: 16 sums a workgroup, the workgroups' parts in 16 shares.
// `look_advance`, one workgroup: from the sums by [output][unit], the derivatives by W2 and by the factors of units;
// the pull of the embedding to zero; Adam. The bias corrections count the network's steps and the view's own: between
// two steps on a view its moments do not change. A non-finite number changes nothing, nor does a halted step.
//
// look_seen: steps of the network, then by view. look_moments: first and second moments of the network, then first and
// second moments of each view's embedding. CPU version and reference: dapple_engine::appearance_mlp::step.
#import shared/step
#import shared/rests
#import shared/groups
#import shared/parameters
#import shared/look

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> look_partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> look_gradient: array<f32>;
@group(0) @binding(3) var<storage, read_write> look: array<f32>;
@group(0) @binding(4) var<storage, read_write> look_moments: array<f32>;
@group(0) @binding(5) var<storage, read_write> look_seen: array<u32>;

var<workgroup> shares: array<f32, 256>;

@compute @workgroup_size(256)
fn look_reduce(
    @builtin(workgroup_id) id: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let column = 16u * id.x + t % 16u;
    let share = t / 16u;
    var sum = 0.0;
    for (var w = 0u; w < LOOK_GROUPS / 16u; w++) {
        sum += look_partials[LOOK_NETWORK * (share * (LOOK_GROUPS / 16u) + w) + column];
    }
    shares[t] = sum;
    workgroupBarrier();
    if t < 16u {
        var total = 0.0;
        for (var s = 0u; s < 16u; s++) {
            total += shares[16u * s + t];
        }
        look_gradient[column] = total;
    }
}

// Steps the number at `at` of `look`, and its moments.
fn advance(at: u32, first: u32, second: u32, derivative: f32, rate: f32, inverse2: f32) {
    let moved = adam_rested(look_moments[first], look_moments[second], derivative, rate, inverse2);
    look_moments[first] = moved.m;
    look_moments[second] = moved.v;
    look[at] -= moved.change;
}

@compute @workgroup_size(256)
fn look_advance(@builtin(local_invocation_index) t: u32) {
    let is_halted = state.halted != 0u;
    let w1 = LOOK_HIDDEN * LOOK_ENCODED;
    let view = step.view - 1u;
    let code = 4u * LOOK_CODES + LOOK_CODE * view;
    let seen = look_seen[step.view] + 1u;
    let steps = look_seen[0] + 1u;
    // By the embedding: needs W2 before its step.
    var by_code = 0.0;
    if t < LOOK_HIDDEN {
        for (var o = 0u; o < 6u; o++) {
            let k = LOOK_HIDDEN * o + t;
            by_code += look_gradient[w1 + k] * look[4u * LOOK_W2 + k];
        }
        by_code += 2.0 * parameters.look_neutral / f32(LOOK_HIDDEN) * look[code + t];
    } else if t < LOOK_CODE {
        by_code = look_gradient[LOOK_ENCODED * (t - LOOK_HIDDEN)];
    }
    // By W2: needs the embedding before its step.
    var by_second = 0.0;
    if t < 6u * LOOK_HIDDEN {
        by_second = look_gradient[w1 + t] * look[code + t % LOOK_HIDDEN];
    }
    storageBarrier();
    workgroupBarrier();
    if is_halted {
        return;
    }
    let rate = parameters.look_network_rate / correction(step.beta1, steps);
    let inverse2 = 1.0 / correction(step.beta2, steps);
    for (var i = t; i < w1; i += 256u) {
        advance(4u + i, i, LOOK_NETWORK + i, look_gradient[i], rate, inverse2);
    }
    if t < 6u * LOOK_HIDDEN {
        let i = w1 + t;
        advance(4u + i, i, LOOK_NETWORK + i, by_second, rate, inverse2);
    }
    if t < LOOK_CODE {
        let first = 2u * LOOK_NETWORK + 2u * LOOK_CODE * view + t;
        let own_rate = parameters.look_code_rate / correction(step.beta1, seen);
        let own_inverse2 = 1.0 / correction(step.beta2, seen);
        advance(code + t, first, first + LOOK_CODE, by_code, own_rate, own_inverse2);
    }
    if t == 0u {
        look_seen[0] = steps;
        look_seen[step.view] = seen;
    }
}
