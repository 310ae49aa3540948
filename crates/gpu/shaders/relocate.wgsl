// `densify` by relocation: dead Gaussians become copies of live ones, and so do new Gaussians (Kheradmand et al. 2024,
// arXiv:2404.09591). CPU version: cpu/src/stages/densify/relocate.rs. Reference: dapple_reference::relocate. Both draw with
// engine::relocation.
// 1. densify.wgsl's `open` sizes the dispatches, or halts if the scratch buffers are too small. `weigh`, by block of
//    256: the sum of the weights of live Gaussians, integers made from their opacities, and the number of dead
//    Gaussians.
// 2. `tally` adds up and computes the new number of Gaussians. If they exceed the capacity, it halts and nothing has
//    changed. `list`: prefix sums of the weights, and the places of dead Gaussians.
// 3. `draw`: each place to fill bisects the prefix sums, counts the draws of the Gaussian that it drew (atomics on
//    integers: any order gives the same), and stores it as its source. `mark`: Gaussians that were drawn begin without
//    moments.
// 4. gather.wgsl moves them. `renew`: opacity and scales of N copies at the same place.
//
// In engines that hold parts of a model (dapple_engine::sharded), ranks draw: `weigh_part`, the weight of each Gaussian of
// the part; `share_part` does for the Gaussians of a list as `renew`, and copies.wgsl moves the copies.
//
// Bindings: geometry, sh_rest and state are the engine's. Scratch is borrowed as in densify.wgsl: drawn, [N], the
// number of draws of each; source, [N']; block_sums, [N / 256]; weight_sums, [N]; dead, [N]. part (number of Gaussians of
// the list); listed, their indices and numbers of copies.

#import shared/scratch
#import shared/planes
#import shared/normal
#import shared/regroup
#import shared/high_product

#import shared/regroup_blocks
#import shared/focus

// Same layout as `stages::densify::relocate::Plan`.
struct Relocation {
    seed: vec2u,
    // The step after which this runs.
    number: u32,
    add_permille: u32,
    max_gaussians: u32,
    dead_logit: f32,
    // See `copy_of`.
    node_weight: f32,
    pad: u32,
    node_heights: array<vec4f, 4>,
    // The sigmoid in fixed point: engine::relocation::sigmoid_table, and two unused words.
    sigmoid: array<vec4u, 17>,
    focus: Focus,
}

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(2) var<uniform> relocation: Relocation;
// `groups` and `state`, bound for reading.
@group(0) @binding(3) var<storage, read> groups_read: array<vec4u>;
@group(0) @binding(4) var<storage, read> state_read: State;
@group(0) @binding(5) var<storage, read_write> geometry: array<u32>;
@group(0) @binding(6) var<storage, read> sh_rest: array<u32>;
@group(0) @binding(7) var<storage, read_write> drawn: array<atomic<u32>>;
@group(0) @binding(8) var<storage, read_write> source: array<u32>;
@group(0) @binding(9) var<storage, read_write> block_sums: array<vec4u>;
@group(0) @binding(10) var<storage, read_write> weight_sums: array<u32>;
@group(0) @binding(11) var<storage, read_write> dead: array<u32>;
@group(0) @binding(12) var<uniform> part: vec4u;
@group(0) @binding(13) var<storage, read> listed: array<u32>;

#import shared/finite

// Equal to engine::relocation::{DRAW, NODES}.
const DRAW: u32 = 64u;
const NODES: u32 = 16u;

fn focus_head() -> vec4u {
    return relocation.focus.head;
}

fn focus_row(k: u32) -> vec4f {
    return relocation.focus.rows[k];
}

fn focus_view(k: u32) -> FocusView {
    return relocation.focus.views[k];
}

fn sigmoid_entry(i: u32) -> u32 {
    return relocation.sigmoid[i / 4u][i % 4u];
}

// CPU version: engine::relocation::weight; 0 for dead Gaussians. `count`: number of Gaussians.
fn weight_of(i: u32, count: u32) -> u32 {
    let logit = number(PLANE_OPACITY, i);
    if !is_all_finite(i) || logit <= relocation.dead_logit {
        return 0u;
    }
    // CPU version: engine::relocation::weight_shift.
    let shift = 16u - min(countLeadingZeros(count), 16u);
    let place = u32((clamp(logit, -8.0, 8.0) + 8.0) * 1024.0);
    let entry = place >> 8u;
    let part = place & 255u;
    let between = (sigmoid_entry(entry) * (256u - part) + sigmoid_entry(entry + 1u) * part) >> 8u;
    let weight = max(between >> shift, 1u);
    // CPU version: engine::DensityFocus::weight.
    return max((weight * focus_share(i)) >> 8u, 1u);
}

// Returns the summands of Gaussian i: (weight, 1 if it is dead); nothing for the sky, frozen ones and beyond the last.
fn item(i: u32, count: u32) -> vec4u {
    if i >= count - min(state_read.kept, count) {
        return vec4u();
    }
    let weight = weight_of(i, count);
    return vec4u(weight, u32(weight == 0u), 0u, 0u);
}

@compute @workgroup_size(SCAN_WIDTH)
fn weigh(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let count = groups_read[REGROUP_OLD].w;
    if block >= blocks_of(count) {
        return;
    }
    sum_block(block, count, item(item_of(block, at), count), at);
}

@compute @workgroup_size(SCAN_WIDTH)
fn tally(at: Invocation) {
    // Count of Gaussians, or 0 if nothing may change.
    let count = groups[REGROUP_OLD].w;
    let sums = scan_blocks(count, at);
    if index_of(at) != 0u || state.halted != 0u {
        return;
    }
    // Without a live Gaussian nothing can be copied.
    var moved = 0u;
    var added = 0u;
    if sums.x > 0u {
        let permille = relocation.add_permille;
        let wanted = count / 1000u * permille + count % 1000u * permille / 1000u;
        moved = sums.y;
        added = min(wanted, max(relocation.max_gaussians, count) - count);
    }
    let total = count + added;
    if total > state.capacity {
        groups[REGROUP_OLD] = vec4u();
        halt(HALT_GAUSSIANS, total);
        return;
    }
    state.gaussians = total;
    state.cloned = 0u;
    state.split = 0u;
    state.pruned = 0u;
    state.refused = 0u;
    state.relocated = moved;
    state.added = added;
    groups[GROUPS_GAUSSIANS] = groups_for(total, 256u);
    groups[REGROUP_NEW] = regroup_for(total, 256u);
    groups[REGROUP_CHILDREN] = regroup_for(moved + added, 256u);
    // To `gather`, all are survivors; then the sum of weights, and the dead Gaussians.
    groups[REGROUP_COUNTS] = vec4u(total, sums.x, moved, 0u);
}

@compute @workgroup_size(SCAN_WIDTH)
fn list(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    at: Invocation,
) {
    let block = group_number(id, dispatched);
    let count = groups_read[REGROUP_OLD].w;
    if block >= blocks_of(count) {
        return;
    }
    let i = item_of(block, at);
    let sums = item(i, count);
    let before = block_sums[block] + scan_of(sums, at).before;
    if i < count {
        weight_sums[i] = before.x;
        source[i] = i;
        atomicStore(&drawn[i], 0u);
        if sums.y != 0u {
            dead[before.y] = i;
        }
    }
}

@compute @workgroup_size(256)
fn draw(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j >= groups_read[REGROUP_CHILDREN].w {
        return;
    }
    let count = groups_read[REGROUP_OLD].w;
    let counts = groups_read[REGROUP_COUNTS];
    let fraction = pcg(noise_key(relocation.seed, relocation.number, j) ^ DRAW);
    let wanted = high_product(fraction, counts.y);
    // The last Gaussian whose prefix sum does not exceed the draw: its weight is not zero.
    var first = 0u;
    var behind = count;
    while behind - first > 1u {
        let middle = (first + behind) / 2u;
        if weight_sums[middle] <= wanted {
            first = middle;
        } else {
            behind = middle;
        }
    }
    atomicAdd(&drawn[first], 1u);
    var place = count + j - counts.z;
    if j < counts.z {
        place = dead[j];
    }
    source[place] = first | REGROUP_FRESH;
}

@compute @workgroup_size(256)
fn mark(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(id, dispatched) * 256u + lane;
    if i < groups_read[REGROUP_OLD].w && atomicLoad(&drawn[i]) > 0u {
        source[i] = i | REGROUP_FRESH;
    }
}

// Returns 1 - (1 - x)^n, by squaring: nothing cancels for small x.
fn stopped_by(x: f32, n: u32) -> f32 {
    var stopped = 0.0;
    for (var bit = firstLeadingBit(n) + 1u; bit > 0u; bit--) {
        stopped *= 2.0 - stopped;
        if ((n >> (bit - 1u)) & 1u) != 0u {
            stopped += x * (1.0 - stopped);
        }
    }
    return stopped;
}

// Returns ln(1 + x) for x in [0, 1], with a relative error of 1e-7: 2 atanh(x / (2 + x)).
fn log_of_one_and(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let s2 = s * s;
    return 2.0 * s * (1.0 + s2 * (1.0 / 3.0 + s2 * (1.0 / 5.0 + s2 * (1.0 / 7.0
        + s2 * (1.0 / 9.0 + s2 * (1.0 / 11.0 + s2 * (1.0 / 13.0)))))));
}

// Returns e^x - 1 for x in [0, 20], with a relative error of 1e-6.
fn exp_less_one(x: f32) -> f32 {
    let series = x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0 + x * (1.0 / 24.0
        + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x * (1.0 / 5040.0)))))));
    return select(exp(x) - 1.0, series, x < 0.5);
}

// CPU version: engine::relocation::copy_of. Returns the logit of each of `copies`, and the summand of the logarithms of
// scales.
fn copy_of(logit: f32, copies: u32) -> vec2f {
    let softplus = max(logit, 0.0) + log_of_one_and(exp(-min(abs(logit), 80.0)));
    let share = softplus / f32(copies);
    let odds = exp_less_one(min(share, 20.0));
    let opacity = odds / (1.0 + odds);
    var sum = 0.0;
    for (var j = 0u; j < NODES; j++) {
        let stopped = stopped_by(opacity * relocation.node_heights[j / 4u][j % 4u], copies);
        sum += select(stopped, 0.5 * stopped, j == 0u);
    }
    let before = 1.0 / (1.0 + exp(-clamp(logit, -80.0, 80.0)));
    let copy = select(exact_log(max(odds, 1e-30)), share, share > 20.0);
    return vec2f(copy, exact_log(before / (sum * relocation.node_weight)));
}

@compute @workgroup_size(256)
fn renew(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(id, dispatched) * 256u + lane;
    if i >= groups_read[REGROUP_NEW].w || (source[i] & REGROUP_FRESH) == 0u {
        return;
    }
    become_copy(i, atomicLoad(&drawn[source[i] & ~REGROUP_FRESH]) + 1u);
}

// Gives Gaussian i the opacity and scales of `copies` at its place.
fn become_copy(i: u32, copies: u32) {
    let copy = copy_of(number(PLANE_OPACITY, i), copies);
    put(PLANE_OPACITY, i, max(copy.x, relocation.dead_logit));
    for (var k = 0u; k < 3u; k++) {
        put(PLANE_SCALE + k, i, number(PLANE_SCALE + k, i) + copy.y);
    }
}

@compute @workgroup_size(256)
fn weigh_part(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(id, dispatched) * 256u + lane;
    if i < state_read.gaussians {
        weight_sums[i] = weight_of(i, state_read.gaussians + state_read.others);
    }
}

@compute @workgroup_size(256)
fn share_part(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let j = group_number(id, dispatched) * 256u + lane;
    if j < part.x {
        become_copy(listed[2u * j], listed[2u * j + 1u]);
    }
}
