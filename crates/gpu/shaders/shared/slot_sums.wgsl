// Sums of a Gaussian's slots, from slot_sums.wgsl to `update` or `gradients`. The importing shader declares `state` and
// `splat_gradients: array<f32>`: field f of the visible Gaussian at place c is at [f * visible_capacity + c], so that
// neighbours read neighbouring words.

// See `layout::SLOT_FLOATS`: sums of s, s dx, s dy | s dx^2, s dx dy, s dy^2 | w dL/d(r, g, b).
struct SlotSums {
    linear: vec3f,
    quadratic: vec3f,
    colour: vec3f,
}

fn load_three(field: u32, c: u32) -> vec3f {
    let stride = state.visible_capacity;
    let at = field * stride + c;
    return vec3f(
        splat_gradients[at], splat_gradients[at + stride], splat_gradients[at + 2u * stride],
    );
}

fn load_sums(c: u32) -> SlotSums {
    return SlotSums(load_three(0u, c), load_three(3u, c), load_three(6u, c));
}
