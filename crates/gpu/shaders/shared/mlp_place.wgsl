// Inputs of the appearance MLP for Gaussian `i`. The importing shader declares `mlp: array<vec4f>` and planes of
// features, `mlp_features: array<f32>`.
#import shared/mlp

fn mlp_place(i: u32, capacity: u32, mean: vec3f) -> MlpPlace {
    let f0 = vec4f(
        mlp_features[i], mlp_features[i + capacity],
        mlp_features[i + 2u * capacity], mlp_features[i + 3u * capacity],
    );
    let f1 = vec4f(
        mlp_features[i + 4u * capacity], mlp_features[i + 5u * capacity],
        mlp_features[i + 6u * capacity], mlp_features[i + 7u * capacity],
    );
    return mlp_encode(mean, f0, f1, mlp[0]);
}
