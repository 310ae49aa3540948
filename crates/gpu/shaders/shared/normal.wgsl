// Standard normal numbers, equal to 1e-7 on every device. CPU version: engine::noise.

#import shared/noise

// Returns ln of a positive normal number, to 1e-7: the exponent separately, then ln m = 2 atanh((m - 1) / (m + 1)) for
// m in [sqrt 1/2, sqrt 2). WGSL promises no more than 2^-21 near 1.
fn exact_log(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    // Bits of sqrt(1/2): mantissas above it belong to the next exponent.
    let shifted = bits - 0x3f3504f3u;
    let exponent = bitcast<i32>(shifted) >> 23u;
    let m = bitcast<f32>(bits - (bitcast<u32>(exponent) << 23u));
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let tail = s2 * (1.0 / 3.0 + s2 * (1.0 / 5.0 + s2 * (1.0 / 7.0 + s2 * (1.0 / 9.0))));
    return f32(exponent) * 0.6931471805599453 + 2.0 * (s + s * tail);
}

// Returns cos(2 pi u) for u in [0, 1], to 1e-7: Taylor series around the nearest quarter turn. WGSL promises no more
// than 2^-11.
fn cos_turns(u: f32) -> f32 {
    let quarter = round(4.0 * u);
    let x = 6.283185307179586 * (u - 0.25 * quarter);
    let x2 = x * x;
    let sine = x * (1.0 + x2 * (-1.0 / 6.0 + x2 * (1.0 / 120.0
        + x2 * (-1.0 / 5040.0 + x2 * (1.0 / 362880.0)))));
    let cosine = 1.0 + x2 * (-0.5 + x2 * (1.0 / 24.0 + x2 * (-1.0 / 720.0
        + x2 * (1.0 / 40320.0 + x2 * (-1.0 / 3628800.0)))));
    let q = u32(quarter) & 3u;
    let value = select(cosine, sine, (q & 1u) != 0u);
    return select(value, -value, q == 1u || q == 2u);
}

// CPU version: `noise::normal`. Method: Box & Muller (1958).
fn normal_number(key: u32, which: u32) -> f32 {
    let radius = sqrt(-2.0 * exact_log(uniform_number(key, 2u * which)));
    return radius * cos_turns(uniform_number(key, 2u * which + 1u));
}
