// `slot_sums`, first part of the stage `update`: adds up the gradient slots of each visible Gaussian, in depth order,
// where the slots of neighbours are adjacent. It is a separate kernel for two reasons. In order of index the visible
// Gaussians come in clusters, some with thousands of slots. Adding needs shared memory and barriers, without which the
// step of the parameters is quicker.
//
// A Gaussian's slots begin at its entry of `emit_starts` and end at the next entry, SLOT_FLOATS floats each. Most
// Gaussians have a few, a huge Gaussian has one in every tile of the image:
// 1. A team of 8 invocations takes a Gaussian of up to SLOTS_TEAM_MOST slots, each every 8th slot. (With an invocation
//    per Gaussian, and 16 consecutive invocations for a Gaussian with many slots, the kernel waited for memory most of
//    the time: half as quick on a capture of half a megapixel.)
// 2. A team's partial sums are added up in order, an invocation a field, and written to the Gaussian's place:
//    shared/slot_sums.
// 3. Gaussians with more slots are taken one after the other by the whole workgroup in the same way, with one more
//    round of adding.
// The order of the additions depends only on the counts.
//
// In permutation SHARDED the sums go to the engines that hold the Gaussians, where sum_places says: parts.wgsl.
//
// Bindings: state; emit_starts, by rank, total last; depth_values, the place of a rank's Gaussian among the visible
// Gaussians; slots; splat_gradients out, by place.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> emit_starts: array<u32>;
@group(0) @binding(2) var<storage, read> depth_values: array<u32>;
@group(0) @binding(3) var<storage, read> slots: array<f32>;
#if SHARDED
@group(0) @binding(4) var<storage, read_write> sums: array<f32>;
@group(0) @binding(5) var<storage, read> sum_places: array<u32>;
#else
@group(0) @binding(4) var<storage, read_write> splat_gradients: array<f32>;
#endif

#import shared/slot_sum

const SLOTS_THREADS: u32 = 256u;
const SLOTS_LANES: u32 = SLOTS_THREADS / SLOT_SUMS_GAUSSIANS;
// 32 slots for each invocation. Above this, the cost of the barriers of the whole workgroup is negligible.
const SLOTS_TEAM_MOST: u32 = 256u;
// Partial sums: strides of a team and of a field. Odd, so that neighbours in step 2, which differ in the team, read
// different banks of shared memory.
const SLOTS_TEAM_STRIDE: u32 = SLOTS_LANES + 1u;
const SLOTS_FIELD_STRIDE: u32 = SLOT_SUMS_GAUSSIANS * SLOTS_TEAM_STRIDE;
const SLOTS_SUM_STRIDE: u32 = SLOT_SUMS_GAUSSIANS + 1u;
const SLOTS_SUMS: u32 = SLOT_SUMS_GAUSSIANS * SLOT_FLOATS;

var<workgroup> partials: array<f32, SLOT_FLOATS * SLOTS_FIELD_STRIDE>;
// Sums of the teams, for step 3.
var<workgroup> team_sums: array<f32, SLOT_FLOATS * SLOTS_SUM_STRIDE>;
// Bits of the Gaussians that are deferred to step 3.
var<workgroup> large: atomic<u32>;
var<workgroup> large_once: u32;

fn load_slot(slot: u32) -> SlotSums {
    let at = slot * SLOT_FLOATS;
    return SlotSums(
        vec3f(slots[at], slots[at + 1u], slots[at + 2u]),
        vec3f(slots[at + 3u], slots[at + 4u], slots[at + 5u]),
        vec3f(slots[at + 6u], slots[at + 7u], slots[at + 8u]),
    );
}

fn add_slot(sums: ptr<function, SlotSums>, slot: SlotSums, counts: bool) {
    (*sums).linear += select(vec3f(0.0), slot.linear, counts);
    (*sums).quadratic += select(vec3f(0.0), slot.quadratic, counts);
    (*sums).colour += select(vec3f(0.0), slot.colour, counts);
}

// Adds every `stride`-th slot of start.. end, in order. Two slots are loaded before the first is added. Where there is
// no second slot, the last one is loaded again and does not count.
fn add_slots(start: u32, end: u32, stride: u32) -> SlotSums {
    var sums = SlotSums();
    for (var slot = start; slot < end; slot += 2u * stride) {
        let a = load_slot(slot);
        let b = load_slot(min(slot + stride, end - 1u));
        add_slot(&sums, a, true);
        add_slot(&sums, b, slot + stride < end);
    }
    return sums;
}

fn keep_three(at: u32, values: vec3f) {
    partials[at] = values.x;
    partials[at + SLOTS_FIELD_STRIDE] = values.y;
    partials[at + 2u * SLOTS_FIELD_STRIDE] = values.z;
}

fn keep_partials(local: u32, part: SlotSums) {
    let at = local / SLOTS_LANES * SLOTS_TEAM_STRIDE + local % SLOTS_LANES;
    keep_three(at, part.linear);
    keep_three(at + 3u * SLOTS_FIELD_STRIDE, part.quadratic);
    keep_three(at + 6u * SLOTS_FIELD_STRIDE, part.colour);
}

// Returns a team's sum of a field.
fn team_sum(team: u32, field: u32) -> f32 {
    let begin = field * SLOTS_FIELD_STRIDE + team * SLOTS_TEAM_STRIDE;
    var sum = partials[begin];
    for (var k = 1u; k < SLOTS_LANES; k++) {
        sum += partials[begin + k];
    }
    return sum;
}

fn store_field(rank: u32, field: u32, sum: f32) {
#if SHARDED
    let place = sum_places[depth_values[rank]];
    // Fields 6 to 8 are by colour.
    let is_clamped = field >= 6u && ((place / SUM_PLACES) >> (field - 6u) & 1u) != 0u;
    sums[place % SUM_PLACES + field] = select(sum, 0.0, is_clamped);
#else
    splat_gradients[field * state.visible_capacity + depth_values[rank]] = sum;
#endif
}

@compute @workgroup_size(SLOTS_THREADS)
fn slot_sums(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = group_number(id, dispatched) * SLOT_SUMS_GAUSSIANS;
    if state.halted != 0u || first >= state.visible {
        return;
    }
    if local == 0u {
        atomicStore(&large, 0u);
    }
    workgroupBarrier();
    let rank = first + local / SLOTS_LANES;
    var part = SlotSums();
    if rank < state.visible {
        let start = emit_starts[rank];
        let end = emit_starts[rank + 1u];
        if end - start <= SLOTS_TEAM_MOST {
            part = add_slots(start + local % SLOTS_LANES, end, SLOTS_LANES);
        } else {
            atomicOr(&large, 1u << (local / SLOTS_LANES));
        }
    }
    keep_partials(local, part);
    workgroupBarrier();
    if local == 0u {
        large_once = atomicLoad(&large);
    }
    var left = workgroupUniformLoad(&large_once);
    for (var sum = local; sum < SLOTS_SUMS; sum += SLOTS_THREADS) {
        let team = sum % SLOT_SUMS_GAUSSIANS;
        if first + team < state.visible && (left >> team & 1u) == 0u {
            let field = sum / SLOT_SUMS_GAUSSIANS;
            store_field(first + team, field, team_sum(team, field));
        }
    }
    while left != 0u {
        let one = first + firstTrailingBit(left);
        left &= left - 1u;
        let sums = add_slots(emit_starts[one] + local, emit_starts[one + 1u], SLOTS_THREADS);
        // The sums of the Gaussian before must have been read.
        workgroupBarrier();
        keep_partials(local, sums);
        workgroupBarrier();
        for (var sum = local; sum < SLOTS_SUMS; sum += SLOTS_THREADS) {
            let team = sum % SLOT_SUMS_GAUSSIANS;
            let field = sum / SLOT_SUMS_GAUSSIANS;
            team_sums[field * SLOTS_SUM_STRIDE + team] = team_sum(team, field);
        }
        workgroupBarrier();
        if local < SLOT_FLOATS {
            var sum = 0.0;
            for (var team = 0u; team < SLOT_SUMS_GAUSSIANS; team++) {
                sum += team_sums[local * SLOTS_SUM_STRIDE + team];
            }
            store_field(one, local, sum);
        }
    }
}
