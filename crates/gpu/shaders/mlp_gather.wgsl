// Appearance MLP, the backward pass before `update` moves the Gaussians: gradients of the network and the photo's
// embedding, summed over the Gaussians of a workgroup. MLP_GROUPS workgroups share all Gaussians out in order, 256 at
// a time.
//
// 1. Each invocation takes a Gaussian: its encoded place, and the derivatives by its gains and offsets, from the sums
//    of its slots and the colour that `project` wrote.
// 2. Thirty-two of them at a time, in shared memory: hidden units, and the derivatives by them.
// 3. Each invocation owns four to eight of the 1344 sums, and adds the thirty-two up in order. It also owns one feature
//    of one of the thirty-two, which takes its step of Adam: no other kernel changes the feature or its moments.
// Thirty-two Gaussians of which none is visible are skipped: adding zeros changes nothing.
//
// Sums of workgroup w go to mlp_partials at 1344 w: by W1, [unit][encoded], then [output][unit], from which
// mlp_step.wgsl computes the derivatives by W2 and by the embedding.
// CPU version: cpu/src/features/appearance_mlp/kernels.rs. Reference: dapple_reference::appearance_mlp.
#import shared/step
#import shared/groups
#import shared/planes
#import shared/rests
#import shared/parameters
#import shared/mlp_place
#import shared/clamped_colour

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> geometry: array<f32>;
@group(0) @binding(2) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(3) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(4) var<storage, read> splat_gradients: array<f32>;
@group(0) @binding(5) var<storage, read> looked: array<vec4f>;
@group(0) @binding(6) var<storage, read> mlp: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> mlp_partials: array<f32>;
// Planes of features, and of their first, then second moments.
@group(0) @binding(8) var<storage, read_write> mlp_features: array<f32>;
@group(0) @binding(9) var<storage, read_write> mlp_feature_moments: array<f32>;
@group(0) @binding(10) var<storage, read> mlp_seen: array<u32>;

// Vectors of a row, and of a unit: odd, so that neighbours are in other banks.
const ROW: u32 = 11u;
const STRIDE: u32 = 9u;
// Where a row has its derivatives by gains and the first offset; by the others, and 1 where it is seen; its features.
const ROW_GAINS: u32 = 7u;
const ROW_OFFSETS: u32 = 8u;
const ROW_FEATURES: u32 = 9u;

// By row: its encoded place, then the derivatives by its gains and offsets, and its features.
var<workgroup> rows: array<vec4f, 32u * ROW>;
// By unit: the derivatives by it, then, 32 further on, its values: of rows q, q + 8, q + 16, q + 24 at q.
var<workgroup> units: array<vec4f, 64u * STRIDE>;
// Which of the 32 rows have a visible Gaussian among them, a bit for each time.
var<workgroup> seen: atomic<u32>;
var<workgroup> present: u32;

// A number of the network or of a code.
fn number(at: u32) -> f32 {
    return mlp[at / 4u][at % 4u];
}

// A step of Adam for feature `f` of Gaussian `i`.
fn advance(i: u32, f: u32, derivative: f32, rate: f32, inverse2: f32) {
    let capacity = state.capacity;
    let first = f * capacity + i;
    let second = (MLP_FEATURES + f) * capacity + i;
    let moved = adam_rested(
        mlp_feature_moments[first], mlp_feature_moments[second], derivative, rate, inverse2,
    );
    mlp_feature_moments[first] = moved.m;
    mlp_feature_moments[second] = moved.v;
    mlp_features[first] -= moved.change;
}

@compute @workgroup_size(256)
fn mlp_gather(
    @builtin(workgroup_id) id: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let count = (state.gaussians + 255u) / 256u;
    let share = (count + MLP_GROUPS - 1u) / MLP_GROUPS;
    let lane = t % 32u;
    let eighth = t / 32u;
    // In step 2: unit t / 8 of rows t % 8 + 0, 8, 16, 24. In step 3: the same unit, by four entries of encoded places;
    // the eighth invocation has its outputs.
    let unit = t / 8u;
    let part_of = t % 8u;
    let own_unit = STRIDE * select(unit, 32u + unit, part_of == 7u);
    // Other numbers of rows in step 3: two offsets, or, the first two invocations of a unit, four features.
    let also = select(ROW_FEATURES + min(part_of, 1u), ROW_OFFSETS, part_of == 7u);
    var sums = vec4f(0.0);
    var more = vec4f(0.0);
    let is_halted = state.halted != 0u;
    let steps = mlp_seen[0] + 1u;
    let feature_rate = parameters.mlp_feature_rate / correction(step.beta1, steps);
    let feature_inverse2 = 1.0 / correction(step.beta2, steps);
    let code = 4u * MLP_CODES + MLP_CODE * (step.view - 1u);
    let bias = number(code + MLP_HIDDEN + unit);
    let scale = number(code + unit);
    let w = MLP_W1 + 9u * unit;
    let w0 = mlp[w];
    let w1 = mlp[w + 1u];
    let w2 = mlp[w + 2u];
    let w3 = mlp[w + 3u];
    let w4 = mlp[w + 4u];
    let w5 = mlp[w + 5u];
    let w6 = mlp[w + 6u];
    let w7 = mlp[w + 7u];
    let w8 = mlp[w + 8u];
    let second = 4u * MLP_W2 + unit;
    let by_gains = vec3f(number(second), number(second + 32u), number(second + 64u));
    let by_offsets = vec3f(number(second + 96u), number(second + 128u), number(second + 160u));
    for (var b = 0u; b < share; b++) {
        let i = (id.x * share + b) * 256u + t;
        var place = MlpPlace();
        var by_gain = vec3f(0.0);
        var by_offset = vec3f(0.0);
        var rank = 0u;
        if i < state.gaussians {
            rank = visible_rank[i];
        }
        if rank > 0u {
            let c = rank - 1u;
            let stride = state.visible_capacity;
            let at = 6u * stride + c;
            let colour = vec3f(
                splat_gradients[at], splat_gradients[at + stride], splat_gradients[at + 2u * stride],
            );
            let rgb = vec3f(splats2d[3u * c + 1u].zw, splats2d[3u * c + 2u].x);
            let d = unclamped_gradient(colour, rgb);
            let size = abs(d.x) + abs(d.y) + abs(d.z);
            rank = 0u;
            // A visible Gaussian with a finite derivative that is not zero.
            if size > 0.0 && is_number(size) {
                let capacity = state.capacity;
                let mean = vec3f(geometry[i], geometry[i + capacity], geometry[i + 2u * capacity]);
                place = mlp_place(i, capacity, mean);
                by_offset = d;
                by_gain = d * looked[2u * c + 1u].xyz;
                rank = 1u;
            }
        }
        if t == 0u {
            atomicStore(&seen, 0u);
        }
        workgroupBarrier();
        if rank > 0u {
            atomicOr(&seen, 1u << eighth);
        }
        workgroupBarrier();
        if t == 0u {
            present = atomicLoad(&seen);
        }
        let all = workgroupUniformLoad(&present);
        for (var part = 0u; part < 8u; part++) {
            if ((all >> part) & 1u) == 0u {
                continue;
            }
            if eighth == part {
                let at = ROW * lane;
                rows[at] = place.e0;
                rows[at + 1u] = place.e1;
                rows[at + 2u] = place.e2;
                rows[at + 3u] = place.e3;
                rows[at + 4u] = place.e4;
                rows[at + 5u] = place.e5;
                rows[at + 6u] = place.e6;
                rows[at + ROW_GAINS] = vec4f(by_gain, by_offset.x);
                rows[at + ROW_OFFSETS] = vec4f(by_offset.yz, f32(rank), 0.0);
                rows[at + ROW_FEATURES] = place.f0;
                rows[at + ROW_FEATURES + 1u] = place.f1;
            }
            workgroupBarrier();
            var h: vec4f;
            var back: vec4f;
            for (var q = 0u; q < 4u; q++) {
                let at = ROW * (part_of + 8u * q);
                h[q] = bias + dot(w0, rows[at]) + dot(w1, rows[at + 1u]) + dot(w2, rows[at + 2u])
                    + dot(w3, rows[at + 3u]) + dot(w4, rows[at + 4u]) + dot(w5, rows[at + 5u])
                    + dot(w6, rows[at + 6u]) + dot(w7, rows[at + ROW_FEATURES])
                    + dot(w8, rows[at + ROW_FEATURES + 1u]);
                let slope = rows[at + ROW_GAINS];
                back[q] = dot(by_gains, slope.xyz)
                    + dot(by_offsets, vec3f(slope.w, rows[at + ROW_OFFSETS].xy));
            }
            units[STRIDE * unit + part_of] = select(vec4f(0.0), scale * back, h > vec4f(0.0));
            units[STRIDE * (32u + unit) + part_of] = max(h, vec4f(0.0));
            workgroupBarrier();
            for (var q = 0u; q < 8u; q++) {
                let own = units[own_unit + q];
                let at = ROW * q + part_of;
                sums += own.x * rows[at] + own.y * rows[at + 8u * ROW]
                    + own.z * rows[at + 16u * ROW] + own.w * rows[at + 24u * ROW];
                let end = ROW * q + also;
                more += own.x * rows[end] + own.y * rows[end + 8u * ROW]
                    + own.z * rows[end + 16u * ROW] + own.w * rows[end + 24u * ROW];
            }
            // Feature `eighth` of row `lane`.
            if rows[ROW * lane + ROW_OFFSETS].z > 0.0 && !is_halted {
                var derivative = 0.0;
                for (var k = 0u; k < MLP_HIDDEN; k++) {
                    derivative += units[STRIDE * k + lane % 8u][lane / 8u]
                        * number(4u * MLP_W1 + MLP_ENCODED * k + MLP_WAVES + eighth);
                }
                let gaussian = (id.x * share + b) * 256u + 32u * part + lane;
                advance(gaussian, eighth, derivative, feature_rate, feature_inverse2);
            }
            workgroupBarrier();
        }
    }
    let base = MLP_NETWORK * id.x;
    if part_of < 7u {
        let at = base + MLP_ENCODED * unit + 4u * part_of;
        mlp_partials[at] = sums.x;
        mlp_partials[at + 1u] = sums.y;
        mlp_partials[at + 2u] = sums.z;
        mlp_partials[at + 3u] = sums.w;
        if part_of < 2u {
            let own = base + MLP_ENCODED * unit + MLP_WAVES + 4u * part_of;
            mlp_partials[own] = more.x;
            mlp_partials[own + 1u] = more.y;
            mlp_partials[own + 2u] = more.z;
            mlp_partials[own + 3u] = more.w;
        }
    } else {
        let at = base + MLP_HIDDEN * MLP_ENCODED + unit;
        mlp_partials[at] = sums.x;
        mlp_partials[at + 32u] = sums.y;
        mlp_partials[at + 64u] = sums.z;
        mlp_partials[at + 96u] = sums.w;
        mlp_partials[at + 128u] = more.x;
        mlp_partials[at + 160u] = more.y;
    }
}
