// The photo that a render is compared with. The buffer `photo` holds a word per pixel, row by row: red in the lowest
// byte, then green, blue and opacity. If step.flags has FLAG_MASK, a bit per pixel follows, lowest first, 1 = the pixel
// counts. Reference: dapple_reference::loss::{photo_target, photo_mask}.

// Returns the colour, 0..1. Where the photo is transparent, the background shows.
fn photo_target(word: u32) -> vec3f {
    let bytes = vec4u(word, word >> 8u, word >> 16u, word >> 24u) & vec4u(255u);
    let values = vec4f(bytes) * (1.0 / 255.0);
    return values.rgb * values.a + step.background * (1.0 - values.a);
}

// Returns true if the pixel at `index` of `pixels` counts in the loss.
fn photo_counts(index: u32, pixels: u32) -> bool {
    if (step.flags & FLAG_MASK) == 0u {
        return true;
    }
    return (photo[pixels + index / 32u] >> (index % 32u) & 1u) != 0u;
}
