// Looks, the way back, before `update` moves the Gaussians: what they give for the network and the photo's code,
// summed over the Gaussians of a workgroup. LOOK_GROUPS workgroups share all Gaussians out in order, 256 at a time.
//
// 1. Each invocation takes a Gaussian: its encoded place, and the derivatives by its gains and offsets, from the sums
//    of its slots and the colour that `project` left.
// 2. Thirty-two of them at a time, in shared memory: hidden units, and the derivatives by them.
// 3. Each invocation owns four or six of the 1088 sums, and adds the thirty-two up in order.
// Thirty-two that no visible Gaussian is among are left out: adding zeros changes nothing.
//
// Sums of workgroup w go to look_partials at 1088 w: by W1, [unit][encoded], then [output][unit], of which
// look_step.wgsl makes the derivatives by W2 and by the code.
// Twin: cpu/src/stages/look.rs. Reference: dapple_reference::look_backward.
#import shared/step
#import shared/groups
#import shared/planes
#import shared/look

@group(0) @binding(0) var<storage, read> state: State;
@group(0) @binding(1) var<storage, read> geometry: array<f32>;
@group(0) @binding(2) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(3) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(4) var<storage, read> splat_gradients: array<f32>;
@group(0) @binding(5) var<storage, read> looked: array<vec4f>;
@group(0) @binding(6) var<storage, read> look: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> look_partials: array<f32>;

// Vectors of a row, and of a unit: nine, so that neighbours lie in other banks.
const STRIDE: u32 = 9u;

// By row: its encoded place, then the derivatives by its gains and offsets.
var<workgroup> rows: array<vec4f, 32u * STRIDE>;
// By unit: the derivatives by it, then, 32 further on, its values: of rows q, q + 8, q + 16, q + 24 at q.
var<workgroup> units: array<vec4f, 64u * STRIDE>;
// Which of the 32 rows have a visible Gaussian among them, a bit for each time.
var<workgroup> seen: atomic<u32>;
var<workgroup> present: u32;

// By bits: compilers may assume that comparisons meet numbers only.
fn is_number(value: f32) -> bool {
    return (bitcast<u32>(value) & 0x7f800000u) != 0x7f800000u;
}

// A number of the network or of a code.
fn number(at: u32) -> f32 {
    return look[at / 4u][at % 4u];
}

@compute @workgroup_size(256)
fn look_gather(
    @builtin(workgroup_id) id: vec3u,
    @builtin(local_invocation_index) t: u32,
) {
    let count = (state.gaussians + 255u) / 256u;
    let share = (count + LOOK_GROUPS - 1u) / LOOK_GROUPS;
    let lane = t % 32u;
    let eighth = t / 32u;
    // In step 2: unit t / 8 of rows t % 8 + 0, 8, 16, 24. In step 3: the same unit, by four entries of encoded places;
    // the eighth invocation has its outputs.
    let unit = t / 8u;
    let part_of = t % 8u;
    let own_unit = STRIDE * select(unit, 32u + unit, part_of == 7u);
    var sums = vec4f(0.0);
    var more = vec2f(0.0);
    let code = 4u * LOOK_CODES + LOOK_CODE * (step.view - 1u);
    let bias = number(code + LOOK_HIDDEN + unit);
    let scale = number(code + unit);
    let w = LOOK_W1 + 7u * unit;
    let w0 = look[w];
    let w1 = look[w + 1u];
    let w2 = look[w + 2u];
    let w3 = look[w + 3u];
    let w4 = look[w + 4u];
    let w5 = look[w + 5u];
    let w6 = look[w + 6u];
    let second = 4u * LOOK_W2 + unit;
    let by_gains = vec3f(number(second), number(second + 32u), number(second + 64u));
    let by_offsets = vec3f(number(second + 96u), number(second + 128u), number(second + 160u));
    for (var b = 0u; b < share; b++) {
        let i = (id.x * share + b) * 256u + t;
        var place = LookPlace();
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
            let d = select(vec3f(0.0), colour, rgb > vec3f(0.0));
            let size = abs(d.x) + abs(d.y) + abs(d.z);
            rank = 0u;
            // One that says something, and is finite.
            if size > 0.0 && is_number(size) {
                let capacity = state.capacity;
                let mean = vec3f(geometry[i], geometry[i + capacity], geometry[i + 2u * capacity]);
                place = look_encode(mean, look[0]);
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
                let at = STRIDE * lane;
                rows[at] = place.e0;
                rows[at + 1u] = place.e1;
                rows[at + 2u] = place.e2;
                rows[at + 3u] = place.e3;
                rows[at + 4u] = place.e4;
                rows[at + 5u] = place.e5;
                rows[at + 6u] = place.e6;
                rows[at + 7u] = vec4f(by_gain, by_offset.x);
                rows[at + 8u] = vec4f(by_offset.yz, 0.0, 0.0);
            }
            workgroupBarrier();
            var h: vec4f;
            var back: vec4f;
            for (var q = 0u; q < 4u; q++) {
                let at = STRIDE * (part_of + 8u * q);
                h[q] = bias + dot(w0, rows[at]) + dot(w1, rows[at + 1u]) + dot(w2, rows[at + 2u])
                    + dot(w3, rows[at + 3u]) + dot(w4, rows[at + 4u]) + dot(w5, rows[at + 5u])
                    + dot(w6, rows[at + 6u]);
                let slope = rows[at + 7u];
                back[q] = dot(by_gains, slope.xyz)
                    + dot(by_offsets, vec3f(slope.w, rows[at + 8u].xy));
            }
            units[STRIDE * unit + part_of] = select(vec4f(0.0), scale * back, h > vec4f(0.0));
            units[STRIDE * (32u + unit) + part_of] = max(h, vec4f(0.0));
            workgroupBarrier();
            for (var q = 0u; q < 8u; q++) {
                let own = units[own_unit + q];
                let at = STRIDE * q + part_of;
                sums += own.x * rows[at] + own.y * rows[at + 72u] + own.z * rows[at + 144u]
                    + own.w * rows[at + 216u];
                let end = STRIDE * q + 8u;
                more += own.x * rows[end].xy + own.y * rows[end + 72u].xy
                    + own.z * rows[end + 144u].xy + own.w * rows[end + 216u].xy;
            }
            workgroupBarrier();
        }
    }
    let base = LOOK_NETWORK * id.x;
    if part_of < 7u {
        let at = base + LOOK_ENCODED * unit + 4u * part_of;
        look_partials[at] = sums.x;
        look_partials[at + 1u] = sums.y;
        look_partials[at + 2u] = sums.z;
        look_partials[at + 3u] = sums.w;
    } else {
        let at = base + LOOK_HIDDEN * LOOK_ENCODED + unit;
        look_partials[at] = sums.x;
        look_partials[at + 32u] = sums.y;
        look_partials[at + 64u] = sums.z;
        look_partials[at + 96u] = sums.w;
        look_partials[at + 128u] = more.x;
        look_partials[at + 160u] = more.y;
    }
}
