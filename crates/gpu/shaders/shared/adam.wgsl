// Adam (Kingma & Ba 2015, algorithm 1) on two planes at a time: the two numbers in one word of
// sixteen-bit storage. Reference: dapple_reference::adam. CPU version: `adam_part` of
// cpu/src/stages/update.rs.

#if BATCH
#import shared/parameters

// Decays of the moments, and epsilon.
fn adam_numbers() -> vec3f {
    return vec3f(parameters.batch_beta1, parameters.batch_beta2, parameters.batch_epsilon);
}
#else
fn adam_numbers() -> vec3f {
    return vec3f(step.beta1, step.beta2, step.epsilon);
}
#endif

struct AdamPair {
    // Parameters, first moments and second moments.
    p: vec2f,
    m: vec2f,
    v: vec2f,
}

// Moments below this value are flushed to zero, as on the CPU. A moment that only decays ends in
// denormals. Steps of size sqrt(v) vanish long before.
const FLUSH: f32 = 1e-30;

// `rates` are already divided by the first bias correction.
fn adam(old: AdamPair, gradient: vec2f, rates: vec2f) -> AdamPair {
    let numbers = adam_numbers();
    let beta1 = numbers.x;
    let beta2 = numbers.y;
    var m = beta1 * old.m + (1.0 - beta1) * gradient;
    var v = beta2 * old.v + (1.0 - beta2) * gradient * gradient;
    m = select(m, vec2f(0.0), abs(m) < vec2f(FLUSH));
    v = select(v, vec2f(0.0), v < vec2f(FLUSH));
#if MOMENTS_PACKED
    // By the Cauchy-Schwarz inequality |m| <= bound sqrt(v) for any gradients:
    // sum a_i g_i <= sqrt(sum a_i^2 / b_i) sqrt(sum b_i g_i^2), a_i = (1 - beta1) beta1^i and b_i =
    // (1 - beta2) beta2^i. Only rounding violates it, where m survives and v vanishes. Without the
    // clamp such a Gaussian would jump.
    let ratio = max(1.0 - beta1 * beta1 / max(beta2, 1e-6), 1e-6);
    let bound = (1.0 - beta1) * inverseSqrt(max(1.0 - beta2, 1e-6) * ratio) * sqrt(v);
    m = clamp(m, -bound, bound);
#endif
    let change = m / (sqrt(v * step.inverse_correction2) + numbers.z);
    return AdamPair(old.p - rates * change, m, v);
}

#if MOMENTS_PACKED
#import shared/rounding

// Words of moments. f16 has too few exponents for gradients: first moments are stored times
// MOMENT_SCALE, second moments as their square roots. See the host's `precision`.
fn decode_first(word: u32) -> vec2f {
#if MOMENTS_F16
    return unpack2x16float(word) * (1.0 / MOMENT_SCALE);
#else
    return decode_bf16(word);
#endif
}

fn decode_second(word: u32) -> vec2f {
#if MOMENTS_F16
    let root = unpack2x16float(word) * (1.0 / MOMENT_SCALE);
    return root * root;
#else
    return decode_bf16(word);
#endif
}

fn encode_first(m: vec2f, which: u32) -> u32 {
#if MOMENTS_F16
    return encode_f16(m * MOMENT_SCALE, random_bits(which));
#else
    return encode_bf16(m, random_bits(which));
#endif
}

fn encode_second(v: vec2f, which: u32) -> u32 {
#if MOMENTS_F16
    return encode_f16(sqrt(v) * MOMENT_SCALE, random_bits(which));
#else
    return encode_bf16(v, random_bits(which));
#endif
}
#endif
