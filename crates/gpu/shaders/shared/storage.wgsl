// Storage of SH rest: coefficient k = 1 .. 15, channel c in plane 3 (k - 1) + c. As f32, plane p of Gaussian i is word
// [p * capacity + i]. With SH_F16 or SH_BF16, planes 2p and 2p + 1 are the low and high half of word [p * capacity +
// i]. Host version: precision.rs.
//
// The importing shader declares `sh_rest: array<u32>`.
//
// Coefficients come in pairs, 2j + 1 and 2j + 2: six planes, so that each packed word is loaded once. Degrees 1 and 3
// end with half a pair: 3 and 15.

struct ShPair {
    odd: vec3f,
    even: vec3f,
}

#if SH_F16
fn sh_unpack(word: u32) -> vec2f {
    return unpack2x16float(word);
}
#endif
#if SH_BF16
fn sh_unpack(word: u32) -> vec2f {
    return vec2f(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}
#endif

#if SH_PACKED
// Returns coefficients 2j + 1 and 2j + 2 of Gaussian i.
fn sh_rest_pair(j: u32, i: u32, capacity: u32) -> ShPair {
    let at = 3u * j * capacity + i;
    let a = sh_unpack(sh_rest[at]);
    let b = sh_unpack(sh_rest[at + capacity]);
    let c = sh_unpack(sh_rest[at + 2u * capacity]);
    return ShPair(vec3f(a, b.x), vec3f(b.y, c));
}

// Returns only coefficient 2j + 1.
fn sh_rest_odd(j: u32, i: u32, capacity: u32) -> vec3f {
    let at = 3u * j * capacity + i;
    return vec3f(sh_unpack(sh_rest[at]), sh_unpack(sh_rest[at + capacity]).x);
}

// Returns only coefficient 2j + 2.
fn sh_rest_even(j: u32, i: u32, capacity: u32) -> vec3f {
    let at = (3u * j + 1u) * capacity + i;
    return vec3f(sh_unpack(sh_rest[at]).y, sh_unpack(sh_rest[at + capacity]));
}
#else
fn sh_rest_three(plane: u32, i: u32, capacity: u32) -> vec3f {
    let at = plane * capacity + i;
    return bitcast<vec3f>(vec3u(sh_rest[at], sh_rest[at + capacity], sh_rest[at + 2u * capacity]));
}

// Returns coefficients 2j + 1 and 2j + 2 of Gaussian i.
fn sh_rest_pair(j: u32, i: u32, capacity: u32) -> ShPair {
    return ShPair(
        sh_rest_three(6u * j, i, capacity),
        sh_rest_three(6u * j + 3u, i, capacity),
    );
}

// Returns only coefficient 2j + 1.
fn sh_rest_odd(j: u32, i: u32, capacity: u32) -> vec3f {
    return sh_rest_three(6u * j, i, capacity);
}

// Returns only coefficient 2j + 2.
fn sh_rest_even(j: u32, i: u32, capacity: u32) -> vec3f {
    return sh_rest_three(6u * j + 3u, i, capacity);
}
#endif
