// Inputs of the appearance MLP for Gaussian `i`. The importing shader declares `look: array<vec4f>` and planes of
// features, `look_features: array<f32>`.
#import shared/look

fn look_place(i: u32, capacity: u32, mean: vec3f) -> LookPlace {
    let f0 = vec4f(
        look_features[i], look_features[i + capacity],
        look_features[i + 2u * capacity], look_features[i + 3u * capacity],
    );
    let f1 = vec4f(
        look_features[i + 4u * capacity], look_features[i + 5u * capacity],
        look_features[i + 6u * capacity], look_features[i + 7u * capacity],
    );
    return look_encode(mean, f0, f1, look[0]);
}
