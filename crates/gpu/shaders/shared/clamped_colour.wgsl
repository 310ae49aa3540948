// The colour of a projected Gaussian, clamped at zero, and the channels whose gradient passes the clamp.
//
// The gradient passes where the colour before clamping is at least zero, as PyTorch's clamp passes it. A clamped
// channel is -0.0, which adds nothing to a pixel: its sign marks the channel for the backward pass. Signs are set and
// read as bits, so that no compiler drops the sign of a zero. CPU version: cpu/src/stages/update/backward.rs,
// `colour_backward`.

fn clamped_colour(raw: vec3f) -> vec3f {
    let magnitude = bitcast<vec3u>(max(raw, vec3f())) & vec3u(0x7fffffffu);
    return bitcast<vec3f>(select(magnitude, vec3u(0x80000000u), raw < vec3f()));
}

// `gradient` where `rgb`, of clamped_colour, was not clamped, else zero.
fn unclamped_gradient(gradient: vec3f, rgb: vec3f) -> vec3f {
    return select(vec3f(), gradient, bitcast<vec3u>(rgb) < vec3u(0x80000000u));
}
