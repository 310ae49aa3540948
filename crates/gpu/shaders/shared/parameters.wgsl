// Numbers that change from step to step, for features that only some steps use. They are a block of the runtime's ring
// buffer, which the host writes for steps whose kernels read it. The struct is `layout::Parameters`.

#import shared/losses
#import shared/struct_parameters

@group(1) @binding(0) var<uniform> parameters: Parameters;

// Returns the weight of a term of the loss: LOSS_*. SSIM is the exception: every step needs its weight, which is
// step.ssim_weight.
fn loss_weight(loss: u32) -> f32 {
    return parameters.losses[loss / 4u][loss % 4u];
}
