// `report`: writes the numbers of a step or of a densification round that the host reads later. One
// workgroup.
//
// 1. Each invocation adds up four interleaved shares of `loss_partials`. Over a thousand sums of a
//    few parts each lose almost nothing to rounding.
// 2. A tree adds the invocations' sums. Both orders are fixed: equal parts give equal bits.
// 3. One invocation writes entry step.report of the ring buffer `reports`, including counts from
//    `state`.
//
// A halted step has no loss, because blending did not finish.
// views: for the tiles of step.view. Entries: `step_report`, `densify_report`.

#import shared/step
#import shared/report

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> state: State;
@group(0) @binding(2) var<storage, read> loss_partials: array<f32>;
@group(0) @binding(3) var<storage, read_write> reports: array<Report>;

const LANES: u32 = 256u;

var<workgroup> sums: array<f32, LANES>;

fn partial(index: u32, count: u32) -> f32 {
    return select(0.0, loss_partials[min(index, count - 1u)], index < count);
}

// Four loads in flight at once: one workgroup has little other work to hide their latency.
fn share(lane: u32, count: u32) -> f32 {
    var sum = vec4f(0.0);
    for (var i = lane; i < count; i += 4u * LANES) {
        sum += vec4f(
            partial(i, count),
            partial(i + LANES, count),
            partial(i + 2u * LANES, count),
            partial(i + 3u * LANES, count),
        );
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn report(kind: u32) -> Report {
    var out: Report;
    out.kind = kind;
    out.number = step.number;
    out.view = step.view;
    out.gaussians = state.gaussians;
    out.visible = state.visible;
    out.instances = state.instances;
    out.buckets = state.buckets;
    out.max_per_tile = state.max_per_tile;
    out.cut_instances = state.cut_instances;
    out.lost_transmittance = bitcast<f32>(state.lost_transmittance);
    out.halted = state.halted;
    out.wanted = state.wanted;
    out.cloned = state.cloned;
    out.split = state.split;
    out.pruned = state.pruned;
    out.refused = state.refused;
    out.relocated = state.relocated;
    out.added = state.added;
    return out;
}

@compute @workgroup_size(LANES)
fn step_report(@builtin(local_invocation_index) lane: u32) {
    let tiles = views[step.view].tiles.x * views[step.view].tiles.y;
    sums[lane] = share(lane, tiles);
    for (var width = LANES / 2u; width > 0u; width /= 2u) {
        workgroupBarrier();
        if lane < width {
            sums[lane] += sums[lane + width];
        }
    }
    if lane == 0u {
        var out = report(REPORT_STEP);
        out.tiles = tiles;
        out.loss = select(0.0, sums[0], state.halted == 0u);
        reports[step.report] = out;
    }
}

@compute @workgroup_size(1)
fn densify_report() {
    reports[step.report] = report(REPORT_DENSIFY);
}
