// What changes from step to step for features that not every step has: a block of the runtime's ring, which is
// written for steps whose kernels look at it. Twin: `layout::Parameters`.

struct Parameters {
    // Of the depth loss; see depth_loss.wgsl.
    depth_weight: f32,
    // Samples of known depth that the view has.
    depth_samples: u32,
    pad: vec2u,
}

@group(1) @binding(0) var<uniform> parameters: Parameters;
