// `update`: from the sums of gradient slots to new parameters, without a gradient buffer. One invocation per Gaussian,
// UPDATE_THREADS a workgroup. Invocations share nothing, so small workgroups use the registers of a multiprocessor most
// completely.
// 1. Read the sums of the Gaussian's slots, written by slot_sums.wgsl.
// 2. Colour: gradients of the SH coefficients, each stepped by Adam at once, and of the viewing direction:
//    shared/sh_backward, shared/adam.
// 3. Geometry: the projection once more, and backward through it: shared/projection_backward.
// 4. Adam on the geometry. Invisible Gaussians take the same steps with gradients of zero, and frozen ones none.
//    Centres, scales and quaternions of the sky have gradients of zero.
// 5. With FLAG_DENSITY, the statistics for density control.
// 6. In permutation EXTRAS, the additions of a density strategy: regularisers before 4, noise after.
// In permutation BATCH, the last step of a batch of several: instead of 1 to 3 and 5, it takes the mean of the sums of
// gradients that gradients.wgsl has written in each step of the batch.
// Parameters and moments are read and written once: 24 bytes a number, and memory is the limit.
// CPU version: cpu/src/stages/update.rs. Reference: dapple_reference::{project_backward, adam}.
#import shared/step
#import shared/groups
#import shared/planes
#import shared/model_index

#if !BATCH
@group(0) @binding(0) var<storage, read> views: array<View>;
#endif
@group(0) @binding(1) var<storage, read> state: State;
// In and out: parameters, moments, and statistics (sums of norms, then counts).
@group(0) @binding(2) var<storage, read_write> geometry: array<f32>;
@group(0) @binding(3) var<storage, read_write> sh_rest: array<u32>;
@group(0) @binding(4) var<storage, read_write> geometry_moments: array<u32>;
@group(0) @binding(5) var<storage, read_write> sh_first: array<u32>;
@group(0) @binding(6) var<storage, read_write> sh_second: array<u32>;
#if BATCH
// Sums of a batch, as planes like the parameters.
@group(0) @binding(7) var<storage, read> gradient_geometry: array<f32>;
@group(0) @binding(8) var<storage, read> gradient_sh: array<f32>;
#else
@group(0) @binding(7) var<storage, read_write> stats: array<f32>;
// By Gaussian, 0 = invisible, or one more than its place among the visible Gaussians; by place, the colour and the sums
// of the slots.
@group(0) @binding(8) var<storage, read> visible_rank: array<u32>;
@group(0) @binding(9) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(10) var<storage, read> splat_gradients: array<f32>;
#endif

#if EXTRA_SLOTS
// By place, written by extra_sums.wgsl; absolute sums are derivatives of the base-2 exponent.
@group(0) @binding(11) var<storage, read> extra_gradients: array<f32>;
#endif
#if LENS
// The views' lenses.
@group(0) @binding(12) var<storage, read> lenses: array<Lens>;
#endif

#if ANTIALIAS
// Standard deviations of 3D filters, by Gaussian: shared/antialias.
@group(0) @binding(13) var<storage, read> filter_3d: array<f32>;
#endif

#if MLP
// By place, written by `project`.
@group(0) @binding(14) var<storage, read> looked: array<vec4f>;
#endif

#if NORMALS
// By place, written by the second slot_sums.wgsl and normal_sums.wgsl.
@group(0) @binding(15) var<storage, read> normal_gradients: array<f32>;
#endif

#import shared/adam
#if BATCH
#import shared/gaussian_gradient
#import shared/storage
#else
#import shared/slot_sums
#if ABSOLUTE
#import shared/absolute_sums
#endif
#import shared/density
#import shared/gaussian_backward
#endif
#if EXTRAS
#import shared/extras
#endif

// Step 2: the data for shared/sh_backward. Words 3j, 3j + 1 and 3j + 2 of SH rest, as they are stored: few registers
// hold many loads in flight.
struct ShUnit {
    a: ShStored,
    b: ShStored,
    c: ShStored,
}

// Two planes of SH rest and their moments.
#if SH_PACKED
alias ShBits = u32;
#else
alias ShBits = vec2u;
#endif
#if MOMENTS_PACKED
alias MomentBits = u32;
#else
alias MomentBits = vec2u;
#endif
struct ShStored {
    p: ShBits,
    m: MomentBits,
    v: MomentBits,
}

fn decode_parameters(bits: ShBits) -> vec2f {
#if SH_PACKED
    return sh_unpack(bits);
#else
    return bitcast<vec2f>(bits);
#endif
}

// Parameters with their moments as they are stored.
fn adam_pair(p: vec2f, m: MomentBits, v: MomentBits) -> AdamPair {
#if MOMENTS_PACKED
    return AdamPair(p, decode_first(m), decode_second(v));
#else
    return AdamPair(p, bitcast<vec2f>(m), bitcast<vec2f>(v));
#endif
}

fn sh_coefficients(unit: ShUnit) -> ShPair {
    let b = decode_parameters(unit.b.p);
    return ShPair(
        vec3f(decode_parameters(unit.a.p), b.x),
        vec3f(b.y, decode_parameters(unit.c.p)),
    );
}

fn sh_load(j: u32, i: u32) -> ShUnit {
    return ShUnit(load_sh(3u * j, i), load_sh(3u * j + 1u, i), load_sh(3u * j + 2u, i));
}

fn sh_load_odd(j: u32, i: u32) -> ShUnit {
    return ShUnit(load_sh(3u * j, i), load_sh_half(3u * j + 1u, i), ShStored());
}

fn sh_step(stored: ShStored, gradient: vec2f) -> AdamPair {
    let pair = adam_pair(decode_parameters(stored.p), stored.m, stored.v);
    return adam(pair, gradient, vec2f(step.rate_sh_rest));
}

fn sh_take(j: u32, i: u32, unit: ShUnit, odd: vec3f, even: vec3f) {
    store_sh(3u * j, i, sh_step(unit.a, odd.xy));
    store_sh(3u * j + 1u, i, sh_step(unit.b, vec2f(odd.z, even.x)));
    store_sh(3u * j + 2u, i, sh_step(unit.c, even.yz));
}

fn sh_take_odd(j: u32, i: u32, unit: ShUnit, odd: vec3f) {
    store_sh(3u * j, i, sh_step(unit.a, odd.xy));
    store_sh_half(3u * j + 1u, i, sh_step(unit.b, vec2f(odd.z, 0.0)));
}

// Planes 2w and 2w + 1 of SH rest; `half`: only plane 2w, because the other is inactive or missing.
fn load_sh(w: u32, i: u32) -> ShStored {
    var stored = load_sh_half(w, i);
    let at = (2u * w + 1u) * state.capacity + i;
#if !SH_PACKED
    stored.p.y = sh_rest[at];
#endif
#if !MOMENTS_PACKED
    stored.m.y = sh_first[at];
    stored.v.y = sh_second[at];
#endif
    return stored;
}

fn load_sh_half(w: u32, i: u32) -> ShStored {
    var stored: ShStored;
    let word = w * state.capacity + i;
    let at = 2u * w * state.capacity + i;
#if SH_PACKED
    stored.p = sh_rest[word];
#else
    stored.p = vec2u(sh_rest[at], 0u);
#endif
#if MOMENTS_PACKED
    stored.m = sh_first[word];
    stored.v = sh_second[word];
#else
    stored.m = vec2u(sh_first[at], 0u);
    stored.v = vec2u(sh_second[at], 0u);
#endif
    return stored;
}

fn store_sh(w: u32, i: u32, pair: AdamPair) {
    let word = w * state.capacity + i;
    let at = 2u * w * state.capacity + i;
    let next = at + state.capacity;
#if SH_PACKED
    sh_rest[word] = encode_sh(pair.p, ROUND_SH + w);
#else
    sh_rest[at] = bitcast<u32>(pair.p.x);
    sh_rest[next] = bitcast<u32>(pair.p.y);
#endif
#if MOMENTS_PACKED
    sh_first[word] = encode_first(pair.m, ROUND_SH_FIRST + w);
    sh_second[word] = encode_second(pair.v, ROUND_SH_SECOND + w);
#else
    sh_first[at] = bitcast<u32>(pair.m.x);
    sh_first[next] = bitcast<u32>(pair.m.y);
    sh_second[at] = bitcast<u32>(pair.v.x);
    sh_second[next] = bitcast<u32>(pair.v.y);
#endif
}

fn store_sh_half(w: u32, i: u32, pair: AdamPair) {
    let word = w * state.capacity + i;
    let at = 2u * w * state.capacity + i;
#if SH_PACKED
    sh_rest[word] = low_half(sh_rest[word], encode_sh(pair.p, ROUND_SH + w));
#else
    sh_rest[at] = bitcast<u32>(pair.p.x);
#endif
#if MOMENTS_PACKED
    sh_first[word] = low_half(sh_first[word], encode_first(pair.m, ROUND_SH_FIRST + w));
    sh_second[word] = low_half(sh_second[word], encode_second(pair.v, ROUND_SH_SECOND + w));
#else
    sh_first[at] = bitcast<u32>(pair.m.x);
    sh_second[at] = bitcast<u32>(pair.v.x);
#endif
}

// Returns `old` with the low half of `rounded`.
fn low_half(old: u32, rounded: u32) -> u32 {
    return (old & 0xffff0000u) | (rounded & 0xffffu);
}

#if SH_PACKED
#import shared/rounding
fn encode_sh(p: vec2f, which: u32) -> u32 {
#if SH_F16
    return encode_f16(p, random_bits(which));
#else
    return encode_bf16(p, random_bits(which));
#endif
}
#endif

// Step 4: planes 2w and 2w + 1 of the geometry, whose parameters are passed in.
fn load_geometry(w: u32, i: u32, p: vec2f) -> AdamPair {
    let words = GEOMETRY_PLANES / 2u;
#if MOMENTS_PACKED
    let m = geometry_moments[w * state.capacity + i];
    let v = geometry_moments[(words + w) * state.capacity + i];
#else
    let at = 2u * w * state.capacity + i;
    let second = at + GEOMETRY_PLANES * state.capacity;
    let m = vec2u(geometry_moments[at], geometry_moments[at + state.capacity]);
    let v = vec2u(geometry_moments[second], geometry_moments[second + state.capacity]);
#endif
    return adam_pair(p, m, v);
}

fn store_geometry(w: u32, i: u32, pair: AdamPair) {
    let words = GEOMETRY_PLANES / 2u;
    let at = 2u * w * state.capacity + i;
    geometry[at] = pair.p.x;
    geometry[at + state.capacity] = pair.p.y;
#if MOMENTS_PACKED
    geometry_moments[w * state.capacity + i] = encode_first(pair.m, ROUND_GEOMETRY_FIRST + w);
    geometry_moments[(words + w) * state.capacity + i] =
        encode_second(pair.v, ROUND_GEOMETRY_SECOND + w);
#else
    let second = at + GEOMETRY_PLANES * state.capacity;
    geometry_moments[at] = bitcast<u32>(pair.m.x);
    geometry_moments[at + state.capacity] = bitcast<u32>(pair.m.y);
    geometry_moments[second] = bitcast<u32>(pair.v.x);
    geometry_moments[second + state.capacity] = bitcast<u32>(pair.v.y);
#endif
}

fn step_geometry(i: u32, old: Gaussian, sh0: vec3f, gradient: GaussianGradient) {
    let g = gradient.geometry;
    let d_sh0 = gradient.sh0;
    // All moments are loaded before the first is stored.
    let means = load_geometry(0u, i, old.mean.xy);
    let mean_scale = load_geometry(1u, i, vec2f(old.mean.z, old.log_scales.x));
    let scales = load_geometry(2u, i, old.log_scales.yz);
    let quat0 = load_geometry(3u, i, old.quat.xy);
    let quat1 = load_geometry(4u, i, old.quat.zw);
    let opacity_sh = load_geometry(5u, i, vec2f(old.logit, sh0.x));
    let sh = load_geometry(6u, i, sh0.yz);

    let quat_rates = vec2f(step.rate_quats);
    let mean_scale_rates = vec2f(step.rate_means, step.rate_scales);
    let opacity_sh_rates = vec2f(step.rate_opacities, step.rate_sh0);
    store_geometry(0u, i, adam(means, g.mean.xy, vec2f(step.rate_means)));
    store_geometry(1u, i, adam(mean_scale, vec2f(g.mean.z, g.log_scales.x), mean_scale_rates));
    store_geometry(2u, i, adam(scales, g.log_scales.yz, vec2f(step.rate_scales)));
    store_geometry(3u, i, adam(quat0, g.quat.xy, quat_rates));
    store_geometry(4u, i, adam(quat1, g.quat.zw, quat_rates));
    store_geometry(5u, i, adam(opacity_sh, vec2f(gradient.logit, d_sh0.x), opacity_sh_rates));
    store_geometry(6u, i, adam(sh, d_sh0.yz, vec2f(step.rate_sh0)));
}

#if EXTRAS
// Returns true if regularisers act on a Gaussian with this derivative by the logit: engine::features::regularise.
fn is_regularised(i: u32, d_logit: f32) -> bool {
    if (step.flags & FLAG_MOVED_ONLY) == 0u || d_logit != 0.0 {
        return true;
    }
    return load_geometry(PLANE_OPACITY / 2u, i, vec2f()).m.x != 0.0;
}
#endif

#if BATCH
fn geometry_mean(plane: u32, i: u32) -> f32 {
    return parameters.batch_share * gradient_geometry[plane * state.capacity + i];
}

fn geometry_mean3(plane: u32, i: u32) -> vec3f {
    return vec3f(
        geometry_mean(plane, i), geometry_mean(plane + 1u, i), geometry_mean(plane + 2u, i),
    );
}

fn sh_sum3(plane: u32, i: u32) -> vec3f {
    let at = plane * state.capacity + i;
    return vec3f(
        gradient_sh[at],
        gradient_sh[at + state.capacity],
        gradient_sh[at + 2u * state.capacity],
    );
}

fn sh_mean3(plane: u32, i: u32) -> vec3f {
    return parameters.batch_share * sh_sum3(plane, i);
}

// A pair of coefficients, and the sums of its gradients.
struct ShMean {
    unit: ShUnit,
    odd: vec3f,
    even: vec3f,
}

fn load_mean(j: u32, i: u32) -> ShMean {
    return ShMean(sh_load(j, i), sh_sum3(6u * j, i), sh_sum3(6u * j + 3u, i));
}

// Returns the mean gradients of the batch, and takes the steps of SH rest.
fn batch_gradient(i: u32) -> GaussianGradient {
    var g = GaussianGradient();
    g.geometry.mean = geometry_mean3(PLANE_MEAN, i);
    g.geometry.log_scales = geometry_mean3(PLANE_SCALE, i);
    g.geometry.quat = vec4f(geometry_mean(PLANE_QUAT, i), geometry_mean3(PLANE_QUAT + 1u, i));
    g.logit = geometry_mean(PLANE_OPACITY, i);
    g.sh0 = geometry_mean3(PLANE_SH0, i);
    let coefficients = (step.sh_degree + 1u) * (step.sh_degree + 1u) - 1u;
    let pairs = coefficients / 2u;
    // As in shared/sh_backward: loads before the stores of the pair before.
    var next = ShMean();
    if pairs > 0u {
        next = load_mean(0u, i);
    }
    for (var j = 0u; j < pairs; j++) {
        let now = next;
        if j + 1u < pairs {
            next = load_mean(j + 1u, i);
        }
        sh_take(j, i, now.unit, parameters.batch_share * now.odd, parameters.batch_share * now.even);
    }
    if coefficients % 2u == 1u {
        sh_take_odd(pairs, i, sh_load_odd(pairs, i), sh_mean3(6u * pairs, i));
    }
    return g;
}
#endif

@compute @workgroup_size(UPDATE_THREADS)
fn update(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group_number(id, dispatched) * UPDATE_THREADS + local;
    if state.halted != 0u || i >= state.gaussians - (state.kept - state.sky) {
        return;
    }
#if MOMENTS_PACKED
    start_rounding(model_index(i));
#else
#if SH_PACKED
    start_rounding(model_index(i));
#endif
#endif
    let old = load_gaussian(i, state.capacity);
    let sh0 = geometry3(PLANE_SH0, i, state.capacity);
#if BATCH
    var gradient = batch_gradient(i);
#else
    let place = visible_rank[i];
    let view = views[step.view];
    var gradient = gaussian_backward(i, place, old, view);
    if place > 0u {
        note_density(i, place, view, gradient.mean2d);
    }
#endif
    let is_sky = i >= state.gaussians - state.kept;
    if is_sky {
        gradient.geometry.mean = vec3f();
        gradient.geometry.log_scales = vec3f();
        gradient.geometry.quat = vec4f();
    }
#if EXTRAS
    if !is_sky && is_regularised(i, gradient.logit) {
        gradient.logit += opacity_slope(old.logit);
        gradient.geometry.log_scales += scale_slopes(old.log_scales);
    }
#endif
    step_geometry(i, old, sh0, gradient);
#if EXTRAS
    if !is_sky {
        perturb(i, state.capacity);
    }
#endif
}
