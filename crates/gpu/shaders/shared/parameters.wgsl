// Numbers that change from step to step, for features that only some steps use. They are a block of the runtime's ring
// buffer, which the host writes for steps whose kernels read it. Same layout as `layout::Parameters`.

#import shared/losses

struct Parameters {
    // Weights of the loss, by the numbers of the terms: loss_weight.
    losses: array<vec4f, 2>,
    // Samples of known depth in the view.
    depth_samples: u32,
    // Step sizes of the appearance MLP: of the network and of the view's embedding. Then the weight of the embedding in
    // the loss, and the step size of Gaussians' features.
    mlp_network_rate: f32,
    mlp_code_rate: f32,
    mlp_neutral: f32,
    mlp_feature_rate: f32,
    // Edge length of the crop that is compared, pixels, and its first column and row.
    crop_side: u32,
    crop: vec2u,
    // Step size of a photo's gains in the photometric model, and the weight of its prior in the loss.
    photometric_rate: f32,
    photometric_prior: f32,
}

@group(1) @binding(0) var<uniform> parameters: Parameters;

// Returns the weight of a term of the loss: LOSS_*. SSIM is the exception: every step needs its weight, which is
// step.ssim_weight.
fn loss_weight(loss: u32) -> f32 {
    return parameters.losses[loss / 4u][loss % 4u];
}
