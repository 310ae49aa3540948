// Sums of the slots of a workgroup's 256 Gaussians, in a fixed order.
//
// A Gaussian's slots lie side by side, SLOT_FLOATS floats each. Most Gaussians have a few, a huge
// one has one in every tile of the image:
// 1. Up to SLOTS_ALONE of them are added up by the Gaussian's own invocation.
// 2. More are cut into jobs of SLOTS_PER_JOB. A prefix sum over the workgroup numbers the jobs.
// 3. In rounds, 8 teams of 32 invocations take a job each; an invocation adds up every 32nd slot.
// 4. A job's 32 partial sums are added up in order, one invocation a field.
// 5. The Gaussian's own invocation adds up its jobs in order.
// Which numbers are added in which order depends on the counts alone. Imported after shared/slot_sums.

const SLOTS_ALONE: u32 = 16u;
const SLOTS_LANES: u32 = 32u;
const SLOTS_TEAMS: u32 = 8u;
// 16 for each invocation: enough that the three barriers of a round do not count.
const SLOTS_PER_JOB: u32 = 512u;
// Partial sums: strides of a team and of a field, odd multiples so that step 4's invocations, which
// differ in both, read different banks of shared memory.
const SLOTS_TEAM_STRIDE: u32 = SLOTS_LANES + 1u;
const SLOTS_FIELD_STRIDE: u32 = SLOTS_TEAMS * SLOTS_TEAM_STRIDE;
// Invocations that step 2 groups.
const SLOTS_SCAN: u32 = 16u;

var<workgroup> slot_jobs: array<u32, 256>;
var<workgroup> slot_group_jobs: array<u32, 16>;
var<workgroup> slot_job_total: u32;
// Of this round's jobs: first slot and one past the last.
var<workgroup> slot_job_start: array<u32, SLOTS_TEAMS>;
var<workgroup> slot_job_end: array<u32, SLOTS_TEAMS>;
var<workgroup> slot_partials: array<f32, SLOT_FLOATS * SLOTS_FIELD_STRIDE>;
var<workgroup> slot_results: array<f32, SLOT_FLOATS * SLOTS_TEAMS>;

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

// Every `stride`-th slot of start.. end, in order. Four are asked for before the first is added:
// one at a time, the memory's latency was a third of this stage. The last ones are asked for again
// where fewer are left, and do not count.
fn add_slots(start: u32, end: u32, stride: u32) -> SlotSums {
    var sums = SlotSums();
    for (var slot = start; slot < end; slot += 4u * stride) {
        let last = end - 1u;
        let a = load_slot(slot);
        let b = load_slot(min(slot + stride, last));
        let c = load_slot(min(slot + 2u * stride, last));
        let d = load_slot(min(slot + 3u * stride, last));
        add_slot(&sums, a, true);
        add_slot(&sums, b, slot + stride < end);
        add_slot(&sums, c, slot + 2u * stride < end);
        add_slot(&sums, d, slot + 3u * stride < end);
    }
    return sums;
}

// Steps 1 to 5 for slots start.. start + count of invocation `local`; all 256 must call it.
fn sum_slots(local: u32, start: u32, count: u32) -> SlotSums {
    var sums = SlotSums();
    var jobs = 0u;
    if count <= SLOTS_ALONE {
        sums = add_slots(start, start + count, 1u);
    } else {
        jobs = (count + SLOTS_PER_JOB - 1u) / SLOTS_PER_JOB;
    }
    let first = number_jobs(local, jobs);
    let total = workgroupUniformLoad(&slot_job_total);
    let team = local / SLOTS_LANES;
    let lane = local % SLOTS_LANES;
    for (var round = 0u; round < total; round += SLOTS_TEAMS) {
        let mine = max(first, round);
        let mine_end = min(first + jobs, round + SLOTS_TEAMS);
        for (var job = mine; job < mine_end; job++) {
            let done = (job - first) * SLOTS_PER_JOB;
            slot_job_start[job - round] = start + done;
            slot_job_end[job - round] = start + min(done + SLOTS_PER_JOB, count);
        }
        workgroupBarrier();
        var part = SlotSums();
        if round + team < total {
            part = add_slots(slot_job_start[team] + lane, slot_job_end[team], SLOTS_LANES);
        }
        keep_partials(team * SLOTS_TEAM_STRIDE + lane, part);
        workgroupBarrier();
        if local < SLOT_FLOATS * SLOTS_TEAMS {
            let begin = local % SLOT_FLOATS * SLOTS_FIELD_STRIDE
                + local / SLOT_FLOATS * SLOTS_TEAM_STRIDE;
            var sum = 0.0;
            for (var k = 0u; k < SLOTS_LANES; k++) {
                sum += slot_partials[begin + k];
            }
            slot_results[local] = sum;
        }
        workgroupBarrier();
        for (var job = mine; job < mine_end; job++) {
            let at = (job - round) * SLOT_FLOATS;
            sums.linear += result(at);
            sums.quadratic += result(at + 3u);
            sums.colour += result(at + 6u);
        }
    }
    return sums;
}

fn result(at: u32) -> vec3f {
    return vec3f(slot_results[at], slot_results[at + 1u], slot_results[at + 2u]);
}

fn keep_partials(at: u32, part: SlotSums) {
    keep_three(at, part.linear);
    keep_three(at + 3u * SLOTS_FIELD_STRIDE, part.quadratic);
    keep_three(at + 6u * SLOTS_FIELD_STRIDE, part.colour);
}

fn keep_three(at: u32, values: vec3f) {
    slot_partials[at] = values.x;
    slot_partials[at + SLOTS_FIELD_STRIDE] = values.y;
    slot_partials[at + 2u * SLOTS_FIELD_STRIDE] = values.z;
}

// Number of the first of this invocation's jobs; their sum goes to slot_job_total.
fn number_jobs(local: u32, jobs: u32) -> u32 {
    slot_jobs[local] = jobs;
    workgroupBarrier();
    if local < SLOTS_SCAN {
        var sum = 0u;
        for (var k = 0u; k < SLOTS_SCAN; k++) {
            sum += slot_jobs[local * SLOTS_SCAN + k];
        }
        slot_group_jobs[local] = sum;
    }
    workgroupBarrier();
    var first = 0u;
    for (var k = 0u; k < local / SLOTS_SCAN; k++) {
        first += slot_group_jobs[k];
    }
    for (var k = local / SLOTS_SCAN * SLOTS_SCAN; k < local; k++) {
        first += slot_jobs[k];
    }
    if local == 255u {
        slot_job_total = first + jobs;
    }
    return first;
}
