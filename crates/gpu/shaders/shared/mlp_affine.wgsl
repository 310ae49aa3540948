// Gains and offsets of the appearance MLP for one Gaussian, for `project`. The importing shader makes the declarations
// of shared/mlp_place.
#import shared/mlp_place

struct MlpAffine {
    gain: vec3f,
    offset: vec3f,
}

fn mlp_unit(at: u32, p: MlpPlace) -> f32 {
    return dot(mlp[at], p.e0) + dot(mlp[at + 1u], p.e1) + dot(mlp[at + 2u], p.e2)
        + dot(mlp[at + 3u], p.e3) + dot(mlp[at + 4u], p.e4) + dot(mlp[at + 5u], p.e5)
        + dot(mlp[at + 6u], p.e6) + dot(mlp[at + 7u], p.f0) + dot(mlp[at + 8u], p.f1);
}

// Returns gains and offsets for the embedding of view `view`, counted from 0.
fn mlp_affine(p: MlpPlace, view: u32) -> MlpAffine {
    let code = MLP_CODES + view * (MLP_CODE / 4u);
    var out = MlpAffine();
    // Four units at a time.
    for (var k = 0u; k < MLP_HIDDEN / 4u; k++) {
        let at = MLP_W1 + 36u * k;
        let sums = vec4f(
            mlp_unit(at, p), mlp_unit(at + 9u, p), mlp_unit(at + 18u, p), mlp_unit(at + 27u, p),
        );
        let h = mlp[code + k] * max(sums + mlp[code + 8u + k], vec4f(0.0));
        let w = MLP_W2 + k;
        out.gain += vec3f(dot(mlp[w], h), dot(mlp[w + 8u], h), dot(mlp[w + 16u], h));
        out.offset += vec3f(dot(mlp[w + 24u], h), dot(mlp[w + 32u], h), dot(mlp[w + 40u], h));
    }
    return out;
}
