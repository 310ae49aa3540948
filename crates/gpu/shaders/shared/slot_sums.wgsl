// Sums of a Gaussian's slots and its colour, from slot_sums.wgsl and `project` to `update` or `gradients`, by its place c
// among the visible Gaussians. The importing shader declares `state`, `splats2d` and `splat_gradients: array<f32>`: field f
// is at [f * visible_capacity + c], so that neighbours read neighbouring words.
#import shared/slot_sum

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

fn load_colour(c: u32) -> vec3f {
    return vec3f(splats2d[3u * c + 1u].zw, splats2d[3u * c + 2u].x);
}
