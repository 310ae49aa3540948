// Two numbers in a word: f16 or bf16, rounded stochastically. Host version: `precision`.
//
// A number x between storable neighbours a < b becomes b with probability (x - a) / (b - a). So the
// mean is exact and small steps add up. A storable number is never changed. The random bits are
// engine::noise's hash of run, step, Gaussian and word: a run rounds in the same way every time.
#import shared/noise

// Word of a Gaussian that is rounded: planes 2w and 2w + 1 of
const ROUND_SH: u32 = 0u;                // sh_rest
const ROUND_SH_FIRST: u32 = 32u;         // sh_first
const ROUND_SH_SECOND: u32 = 64u;        // sh_second
const ROUND_GEOMETRY_FIRST: u32 = 96u;   // geometry_moments, first
const ROUND_GEOMETRY_SECOND: u32 = 112u; // geometry_moments, second.
// Distinguishes these numbers from those that density control draws for the same step and Gaussian.
const ROUND_KEY: u32 = 0x726e6400u;

var<private> rounding_key: u32;

// Must be called once, before anything is rounded.
fn start_rounding(gaussian: u32) {
    rounding_key = noise_key(step.seed, step.number, gaussian) ^ ROUND_KEY;
}

fn random_bits(which: u32) -> u32 {
    return pcg(rounding_key ^ which);
}

fn is_special(bits: vec2u) -> vec2<bool> {
    return (bits & vec2u(0x7f800000u)) == vec2u(0x7f800000u);
}

// bf16 is the upper half of an f32: random bits are added below the cut, and the rest is cut.
fn encode_bf16(x: vec2f, random: u32) -> u32 {
    let bits = bitcast<vec2u>(x);
    let raised = bits + select(vec2u(random & 0xffffu, random >> 16u), vec2u(0u), is_special(bits));
    return (raised.x >> 16u) | (raised.y & 0xffff0000u);
}

fn decode_bf16(word: u32) -> vec2f {
    return vec2f(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

// Rounds with the 13 bits that an f16 has less than an f32. Below 2^-14 an f16 counts in steps of
// 2^-24. A number that is too large becomes the largest f16; infinities and NaN stay non-finite.
// Written by hand, since pack2x16float may round either way. Converting the small numbers through
// floats was measured to be faster than shifting their bits.
fn encode_f16(x: vec2f, random: u32) -> u32 {
    let bits = bitcast<vec2u>(x);
    let magnitude = min(abs(x), vec2f(65504.0));
    let dither = vec2u(random & 0x1fffu, (random >> 16u) & 0x1fffu);
    // Exponents are biased by 15 instead of 127.
    let normal = ((bitcast<vec2u>(magnitude) + dither) >> vec2u(13u)) - vec2u(112u << 10u);
    let steps = vec2u(min(magnitude, vec2f(1.0)) * 16777216.0 + vec2f(dither) * (1.0 / 8192.0));
    var half = select(normal, steps, magnitude < vec2f(6.103515625e-5));
    half = select(half, vec2u(0x7e00u), is_special(bits));
    half |= (bits >> vec2u(16u)) & vec2u(0x8000u);
    return half.x | (half.y << 16u);
}
