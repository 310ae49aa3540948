// Returns the sums over pixels of the absolute values of the gradient by the centre, per pixel, of the Gaussian that is at
// `place` - 1 among the visible ones. The importing shader declares `extra_gradients: array<f32>`, whose sums are
// derivatives of the base-2 exponent.
fn absolute_sums(place: u32) -> vec2f {
    let c = place - 1u;
    return LN_2 * vec2f(extra_gradients[c], extra_gradients[state.visible_capacity + c]);
}
