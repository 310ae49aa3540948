// Gains and offsets of the appearance MLP for one Gaussian, for `project`. The importing shader makes the declarations
// of shared/look_place.
#import shared/look_place

struct LookAffine {
    gain: vec3f,
    offset: vec3f,
}

fn look_unit(at: u32, p: LookPlace) -> f32 {
    return dot(look[at], p.e0) + dot(look[at + 1u], p.e1) + dot(look[at + 2u], p.e2)
        + dot(look[at + 3u], p.e3) + dot(look[at + 4u], p.e4) + dot(look[at + 5u], p.e5)
        + dot(look[at + 6u], p.e6) + dot(look[at + 7u], p.f0) + dot(look[at + 8u], p.f1);
}

// Returns gains and offsets for the embedding of view `view`, counted from 0.
fn look_affine(p: LookPlace, view: u32) -> LookAffine {
    let code = LOOK_CODES + view * (LOOK_CODE / 4u);
    var out = LookAffine();
    // Four units at a time.
    for (var k = 0u; k < LOOK_HIDDEN / 4u; k++) {
        let at = LOOK_W1 + 36u * k;
        let sums = vec4f(
            look_unit(at, p), look_unit(at + 9u, p), look_unit(at + 18u, p), look_unit(at + 27u, p),
        );
        let h = look[code + k] * max(sums + look[code + 8u + k], vec4f(0.0));
        let w = LOOK_W2 + k;
        out.gain += vec3f(dot(look[w], h), dot(look[w + 8u], h), dot(look[w + 16u], h));
        out.offset += vec3f(dot(look[w + 24u], h), dot(look[w + 32u], h), dot(look[w + 40u], h));
    }
    return out;
}
