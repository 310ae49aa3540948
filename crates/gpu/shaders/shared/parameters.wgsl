// What changes from step to step for features that not every step has: a block of the runtime's ring, which is
// written for steps whose kernels look at it. Twin: `layout::Parameters`.

#import shared/losses

struct Parameters {
    // Weights of the loss, by the terms' numbers: loss_weight.
    losses: array<vec4f, 2>,
    // Samples of known depth that the view has.
    depth_samples: u32,
    // Step sizes of looks: of the network, of the view's code; the code's weight in the loss; and the step size of
    // Gaussians' features.
    look_network_rate: f32,
    look_code_rate: f32,
    look_neutral: f32,
    look_feature_rate: f32,
    // Pixels along an edge of the crop that is compared, and its first column and row.
    crop_side: u32,
    crop: vec2u,
}

@group(1) @binding(0) var<uniform> parameters: Parameters;

// The weight of a term of the loss: LOSS_*.
fn loss_weight(loss: u32) -> f32 {
    return parameters.losses[loss / 4u][loss % 4u];
}
