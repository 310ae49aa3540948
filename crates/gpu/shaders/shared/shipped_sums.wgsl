// The functions of shared/slot_sums and shared/absolute_sums for sums in shipments (parts.wgsl), whose rows are by place.
// The importing shader declares `sums: array<f32>`.
#import shared/slot_sum
#import shared/sum_words

fn load_sums(c: u32) -> SlotSums {
    let at = SUM_WORDS * c;
    return SlotSums(
        vec3f(sums[at], sums[at + 1u], sums[at + 2u]),
        vec3f(sums[at + 3u], sums[at + 4u], sums[at + 5u]),
        vec3f(sums[at + 6u], sums[at + 7u], sums[at + 8u]),
    );
}

// The gradients of clamped channels are zero already.
fn load_colour(c: u32) -> vec3f {
    return vec3f();
}

#if ABSOLUTE
fn absolute_sums(place: u32) -> vec2f {
    let at = SUM_WORDS * (place - 1u) + SLOT_FLOATS;
    return LN_2 * vec2f(sums[at], sums[at + 1u]);
}
#endif
