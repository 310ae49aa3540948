// Statistics of density control. The importing shader declares `stats: array<f32>`, sums of norms, then counts, and in
// permutation ABSOLUTE `absolute_sums`, of shared/absolute_sums or shared/shipped_sums.

// Adds a visible Gaussian's gradient by its centre in normalised pixels, where half the image is 1.
fn note_density(i: u32, place: u32, view: View, mean2d: vec2f) {
    if (step.flags & FLAG_DENSITY) == 0u {
        return;
    }
#if ABSOLUTE
    let gradient = absolute_sums(place);
#else
    let gradient = mean2d;
#endif
    stats[i] += length(gradient * 0.5 * vec2f(view.size));
    stats[state.capacity + i] += 1.0;
}
