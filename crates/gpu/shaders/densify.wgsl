// `densify`: clone, split, prune, reset; the adaptive density control of the 3DGS paper (Kerbl et al. 2023). CPU
// version: cpu/src/stages/densify.rs, with the same decisions in the same order.
// 1. `open` sizes the dispatches, or halts if the scratch buffers are too small. `want` counts the Gaussians to grow,
//    by block of 256: those whose screen-space gradient, averaged over the steps in which they were visible, exceeds
//    the threshold.
// 2. `budget` compares the count with the free capacity. If all fit, `elect` marks all to grow. Otherwise it lists
//    them, and the list is sorted, largest gradients first, ties by index. Then `choose` marks the first of them to
//    grow.
// 3. `fates` decides which Gaussians are cloned or split and which are pruned: too transparent, too large or
//    non-finite. `settle` adds up; if the new generation does not fit, it halts and nothing has changed.
// 4. `place` writes the source Gaussian of each place of the new generation: survivors, clones, first children, second
//    children, each in order. gather.wgsl moves them there.
// 5. `split` turns copies of a split Gaussian into its children. `reset` clamps opacities and clears their moments, and
//    clears the statistics once they have been used.
// Logarithms of scales and logits of opacities are compared with the logarithms and logits of the plan's limits. This
// needs no exp, whose last bits would differ between devices.
//
// Bindings: geometry, sh_rest, geometry_moments, stats and state are the engine's. Scratch is borrowed from the buffers
// of a step's instances, whose capacity exceeds that of the Gaussians; otherwise `open` halts. growth, [N], the fate of
// a Gaussian; source, [N']; block_sums, [N / 256]; sort_keys, sort_values, [N]. stages/densify.rs assigns the buffers.

#import shared/scratch
#import shared/planes
#import shared/normal
#import shared/regroup
#import shared/high_product

#import shared/regroup_blocks
#import shared/focus

struct Plan {
    seed: vec2u,
    // The step after which this runs.
    number: u32,
    // PLAN_*.
    flags: u32,
    grow_gradient: f32,
    split_log_scale: f32,
    max_gaussians: u32,
    prune_logit: f32,
    // For survivors and clones, and for parents, whose children are smaller.
    prune_log_scale: f32,
    prune_log_scale_parent: f32,
    reset_logit: f32,
    // ln 1.6: children are smaller by this factor (the paper).
    log_shrink: f32,
    // Share of the free capacity below max_gaussians that may be taken, in units of 2^-32; all of it if every bit is
    // set.
    room_share: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
    focus: Focus,
}

const PLAN_GROW: u32 = 1u;
const PLAN_PRUNE_OPACITY: u32 = 2u;
const PLAN_PRUNE_SCALE: u32 = 4u;
const PLAN_RESET: u32 = 8u;

@group(0) @binding(0) var<storage, read_write> state: State;
@group(0) @binding(1) var<storage, read_write> groups: array<vec4u>;
@group(0) @binding(2) var<uniform> plan: Plan;
// `groups`, bound for reading.
@group(0) @binding(3) var<storage, read> groups_read: array<vec4u>;
@group(0) @binding(4) var<storage, read> state_read: State;
@group(0) @binding(5) var<storage, read_write> geometry: array<u32>;
@group(0) @binding(6) var<storage, read> sh_rest: array<u32>;
@group(0) @binding(7) var<storage, read_write> geometry_moments: array<u32>;
@group(0) @binding(8) var<storage, read_write> stats: array<f32>;
@group(0) @binding(9) var<storage, read_write> growth: array<u32>;
@group(0) @binding(10) var<storage, read_write> source: array<u32>;
@group(0) @binding(11) var<storage, read_write> block_sums: array<vec4u>;
@group(0) @binding(12) var<storage, read_write> sort_keys: array<u32>;
@group(0) @binding(13) var<storage, read_write> sort_values: array<u32>;

#import shared/finite

// Fate of a Gaussian, in `growth` from `fates` on; until then 1 = it grows.
const FATE_SURVIVES: u32 = 1u;
const FATE_CLONED: u32 = 2u;
const FATE_PARENT: u32 = 4u;

// Correctly rounded on devices whose fma is fused. WGSL allows a division to be wrong in its last bits, and equal
// gradients must stay equal. Adding an integer that is always 0 hides the quotient from compilers that replace x - (x /
// y) y by 0.
fn divide(x: f32, y: f32) -> f32 {
    let q = bitcast<f32>(bitcast<u32>(x / y) + (plan.flags >> 31u));
    let better = q + fma(-q, y, x) / y;
    return select(q, better, is_finite(bitcast<u32>(better)));
}

// Before `settle`, and after it for indices of the new generation.
fn is_kept(i: u32) -> bool {
    return i < state_read.kept_end && i >= state_read.kept_end - state_read.kept;
}

fn focus_head() -> vec4u {
    return plan.focus.head;
}

fn focus_row(k: u32) -> vec4f {
    return plan.focus.rows[k];
}

fn focus_view(k: u32) -> FocusView {
    return plan.focus.views[k];
}

// Gaussians that no camera shows with the region of interest count less.
fn mean_gradient(i: u32) -> f32 {
    let gradient = divide(stats[i], max(stats[state_read.capacity + i], 1.0));
    return gradient * (f32(focus_share(i)) * (1.0 / 256.0));
}

fn wants(i: u32) -> bool {
    let gradient = mean_gradient(i);
    return (plan.flags & PLAN_GROW) != 0u && !is_nan(bitcast<u32>(gradient))
        && gradient > plan.grow_gradient && !is_kept(i);
}

@compute @workgroup_size(1)
fn open() {
    for (var entry = STEP_ENTRIES; entry < ALL_ENTRIES; entry++) {
        groups[entry] = vec4u();
    }
    if state.kept > 0u {
        state.kept_end = state.gaussians;
    }
    if has_scratch() {
        groups[REGROUP_OLD] = regroup_for(state.gaussians, SCAN_WIDTH);
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn want(
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
    var wanting = 0u;
    if i < count {
        wanting = u32(wants(i));
    }
    sum_block(block, count, vec4u(wanting, 0u, 0u, 0u), at);
}

@compute @workgroup_size(SCAN_WIDTH)
fn budget(at: Invocation) {
    // Count of Gaussians, or 0 if nothing may change.
    let count = groups[REGROUP_OLD].w;
    let wanting = scan_blocks(count, at).x;
    if index_of(at) == 0u && count > 0u {
        var free = max(plan.max_gaussians, count) - count;
        if plan.room_share != 0xffffffffu {
            free = high_product(plan.room_share, free);
        }
        let growing = min(wanting, free);
        groups[REGROUP_COUNTS] = vec4u(wanting, 0u, 0u, growing);
        if growing < wanting {
            groups[REGROUP_SORT] = regroup_for(wanting, RADIX_BLOCK);
        }
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn elect(
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
    let is_scarce = groups_read[REGROUP_SORT].w > 0u;
    var is_wanting = false;
    if i < count {
        is_wanting = wants(i);
        growth[i] = u32(is_wanting && !is_scarce);
    }
    if !is_scarce {
        return;
    }
    let before = scan_of(vec4u(u32(is_wanting), 0u, 0u, 0u), at).before.x;
    if is_wanting {
        let place = block_sums[block].x + before;
        let bits = bitcast<u32>(mean_gradient(i));
        // Bits of floats in ascending order, then inverted.
        sort_keys[place] = ~(bits ^ select(0x80000000u, 0xffffffffu, (bits >> 31u) != 0u));
        sort_values[place] = i;
    }
}

@compute @workgroup_size(SCAN_WIDTH)
fn choose(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let place = group_number(id, dispatched) * SCAN_WIDTH + lane;
    if groups_read[REGROUP_SORT].w > 0u && place < groups_read[REGROUP_COUNTS].w {
        growth[sort_values[place]] = 1u;
    }
}

// Returns the logarithm of the largest axis; non-finite values do not count. -FLT_MAX replaces the logarithm of zero.
fn log_scale(i: u32) -> f32 {
    var largest = bitcast<f32>(0xff7fffffu);
    for (var k = 0u; k < 3u; k++) {
        let word = plane(PLANE_SCALE + k, i);
        if !is_nan(word) {
            largest = max(largest, bitcast<f32>(word));
        }
    }
    return largest;
}

// Survives, cloned, parent: 1 if so and if not pruned; split: 1 also if pruned.
fn fate_of(i: u32) -> vec4u {
    if is_kept(i) {
        return vec4u(1u, 0u, 0u, 0u);
    }
    let scale = log_scale(i);
    let is_growing = growth[i] != 0u;
    let is_split = is_growing && !(scale <= plan.split_log_scale);
    var limit = plan.prune_log_scale;
    if is_split {
        limit = plan.prune_log_scale_parent;
    }
    let stays = is_all_finite(i)
        && ((plan.flags & PLAN_PRUNE_OPACITY) == 0u || number(PLANE_OPACITY, i) >= plan.prune_logit)
        && ((plan.flags & PLAN_PRUNE_SCALE) == 0u || scale <= limit);
    return vec4u(
        u32(stays && !is_split),
        u32(stays && is_growing && !is_split),
        u32(stays && is_split),
        u32(is_split),
    );
}

@compute @workgroup_size(SCAN_WIDTH)
fn fates(
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
    var fate = vec4u();
    if i < count {
        fate = fate_of(i);
        growth[i] = fate.x * FATE_SURVIVES + fate.y * FATE_CLONED + fate.z * FATE_PARENT;
    }
    sum_block(block, count, fate, at);
}

@compute @workgroup_size(SCAN_WIDTH)
fn settle(at: Invocation) {
    // Count of Gaussians, or 0 if nothing may change.
    let count = groups[REGROUP_OLD].w;
    let sums = scan_blocks(count, at);
    if index_of(at) != 0u || state.halted != 0u {
        return;
    }
    let total = sums.x + sums.y + 2u * sums.z;
    if total > state.capacity {
        groups[REGROUP_OLD] = vec4u();
        halt(HALT_GAUSSIANS, total);
        return;
    }
    let wanting = groups[REGROUP_COUNTS].x;
    let growing = groups[REGROUP_COUNTS].w;
    state.refused = wanting - growing;
    state.gaussians = total;
    // They are the last survivors.
    state.kept_end = sums.x;
    state.cloned = growing - sums.w;
    state.split = sums.w;
    state.pruned = count + growing - total;
    state.relocated = 0u;
    state.added = 0u;
    groups[GROUPS_GAUSSIANS] = groups_for(total, 256u);
    groups[REGROUP_NEW] = regroup_for(total, 256u);
    groups[REGROUP_CHILDREN] = regroup_for(2u * sums.z, 256u);
    groups[REGROUP_COUNTS] = vec4u(sums.xyz, growing);
}

@compute @workgroup_size(SCAN_WIDTH)
fn place(
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
    var fate = vec4u();
    if i < count {
        fate = (vec4u(growth[i]) / vec4u(FATE_SURVIVES, FATE_CLONED, FATE_PARENT, 8u)) & vec4u(1u);
    }
    let places = block_sums[block] + scan_of(fate, at).before;
    let counts = groups_read[REGROUP_COUNTS];
    if fate.x != 0u {
        source[places.x] = i;
    }
    if fate.y != 0u {
        source[counts.x + places.y] = i;
    }
    if fate.z != 0u {
        let first = counts.x + counts.y + places.z;
        source[first] = i;
        source[first + counts.z] = i;
    }
}

@compute @workgroup_size(256)
fn split(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let child = group_number(id, dispatched) * 256u + lane;
    if child >= groups_read[REGROUP_CHILDREN].w {
        return;
    }
    let counts = groups_read[REGROUP_COUNTS];
    let i = counts.x + counts.y + child;
    let sample = u32(child >= counts.z);
    let key = noise_key(plan.seed, plan.number, source[i]);
    var q = vec4f(
        number(PLANE_QUAT, i), number(PLANE_QUAT + 1u, i),
        number(PLANE_QUAT + 2u, i), number(PLANE_QUAT + 3u, i),
    );
    let norm = sqrt(dot(q, q));
    q = select(vec4f(0.0), q / norm, norm > 0.0);
    let w = q.x;
    let v = q.yzw;
    var draw: vec3f;
    for (var k = 0u; k < 3u; k++) {
        let normal = normal_number(key, sample * 3u + k);
        draw[k] = normal * exp(number(PLANE_SCALE + k, i));
    }
    // Rotation of `draw` by the quaternion (w, v).
    let turned = vec3f(
        (1.0 - 2.0 * (v.y * v.y + v.z * v.z)) * draw.x + 2.0 * (v.x * v.y - w * v.z) * draw.y
            + 2.0 * (v.x * v.z + w * v.y) * draw.z,
        2.0 * (v.x * v.y + w * v.z) * draw.x + (1.0 - 2.0 * (v.x * v.x + v.z * v.z)) * draw.y
            + 2.0 * (v.y * v.z - w * v.x) * draw.z,
        2.0 * (v.x * v.z - w * v.y) * draw.x + 2.0 * (v.y * v.z + w * v.x) * draw.y
            + (1.0 - 2.0 * (v.x * v.x + v.y * v.y)) * draw.z,
    );
    for (var k = 0u; k < 3u; k++) {
        put(PLANE_MEAN + k, i, number(PLANE_MEAN + k, i) + turned[k]);
        put(PLANE_SCALE + k, i, number(PLANE_SCALE + k, i) - plan.log_shrink);
    }
}

@compute @workgroup_size(256)
fn reset(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = group_number(id, dispatched) * 256u + lane;
    if i >= groups_read[REGROUP_NEW].w {
        return;
    }
    let capacity = state_read.capacity;
    if (plan.flags & PLAN_GROW) != 0u {
        stats[i] = 0.0;
        stats[capacity + i] = 0.0;
    }
    if (plan.flags & PLAN_RESET) != 0u && !is_kept(i) {
        put(PLANE_OPACITY, i, min(number(PLANE_OPACITY, i), plan.reset_logit));
#if MOMENTS_PACKED
        // An even plane is the low half of its word.
        let first = PLANE_OPACITY / 2u * capacity + i;
        let second = first + GEOMETRY_PLANES / 2u * capacity;
        geometry_moments[first] &= 0xffff0000u;
        geometry_moments[second] &= 0xffff0000u;
#else
        geometry_moments[PLANE_OPACITY * capacity + i] = 0u;
        geometry_moments[(GEOMETRY_PLANES + PLANE_OPACITY) * capacity + i] = 0u;
#endif
    }
}
