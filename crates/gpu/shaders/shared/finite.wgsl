// Words of a Gaussian's parameters, and tests that they are finite. The tests use bits, because WGSL lets compilers
// assume that comparisons never meet NaN or infinity.
//
// The importing shader declares geometry and sh_rest as arrays of u32 and state_read: State, and imports shared/planes.

fn is_finite(word: u32) -> bool {
    return (word & 0x7f800000u) != 0x7f800000u;
}

fn is_nan(word: u32) -> bool {
    return (word & 0x7fffffffu) > 0x7f800000u;
}

fn plane(p: u32, i: u32) -> u32 {
    return geometry[p * state_read.capacity + i];
}

fn number(p: u32, i: u32) -> f32 {
    return bitcast<f32>(plane(p, i));
}

fn is_sh_finite(word: u32) -> bool {
#if SH_F16
    return (word & 0x7c00u) != 0x7c00u && (word & 0x7c000000u) != 0x7c000000u;
#endif
#if SH_BF16
    return (word & 0x7f80u) != 0x7f80u && is_finite(word);
#endif
#if !SH_PACKED
    return is_finite(word);
#endif
}

fn is_all_finite(i: u32) -> bool {
    var all = true;
    for (var p = 0u; p < GEOMETRY_PLANES; p++) {
        all = all && is_finite(plane(p, i));
    }
    // The length of the buffer gives the number of planes.
    let sh_words = arrayLength(&sh_rest) / state_read.capacity;
    for (var p = 0u; p < sh_words; p++) {
        all = all && is_sh_finite(sh_rest[p * state_read.capacity + i]);
    }
    return all;
}
