// Numbers that every step needs and that change from step to step, and the GPU's own counts. shared/parameters has the
// numbers that only some steps need. Same layout as `layout::{Step, State, View}`.

struct Step {
    view: u32,
    number: u32,
    // FLAG_*.
    flags: u32,
    sh_degree: u32,
    background: vec3f,
    near: f32,
    // Step sizes, divided by Adam's first bias correction.
    rate_means: f32,
    rate_scales: f32,
    rate_quats: f32,
    rate_opacities: f32,
    rate_sh0: f32,
    rate_sh_rest: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    // 1 / (1 - beta2^step).
    inverse_correction2: f32,
    // Weight of 1 - SSIM. All other weights of the loss: loss_weight.
    ssim_weight: f32,
    // max_gaussians_per_tile; 0 = all.
    cap: u32,
    // Index of the report in the ring buffer.
    report: u32,
    // Step size of the view's bilateral grid; see appearance_step.wgsl.
    appearance_rate: f32,
    // Seed of the run, low and high.
    seed: vec2u,
    // Size of the noise on centres; see shared/extras.
    noise: f32,
    // Step sizes of the view's pose, radians and world units; see poses.wgsl.
    rate_turn: f32,
    rate_shift: f32,
    // Dropout: the fraction of Gaussians that are omitted; see project.wgsl.
    dropout: f32,
}

// Add screen-space gradients to the density statistics.
const FLAG_DENSITY: u32 = 1u;
// The photo has masked pixels (bits after its pixels).
const FLAG_MASK: u32 = 2u;

var<immediate> step: Step;

struct State {
    // Gaussians in the buffers.
    gaussians: u32,
    // Capacity of the planes in Gaussians: the stride of a plane.
    capacity: u32,
    visible: u32,
    instances: u32,
    buckets: u32,
    // Capacity for visible Gaussians: the stride of `splat_gradients`.
    visible_capacity: u32,
    instance_capacity: u32,
    bucket_capacity: u32,
    // Not 0 = a buffer was too small: nothing may change parameters until the host has grown it. HALT_* bits.
    halted: u32,
    // Size that the buffer that was too small needs, in elements.
    wanted: u32,
    max_per_tile: u32,
    cut_instances: u32,
    // Bits of the largest transmittance that the per-tile limit cut off, an f32 >= 0.
    lost_transmittance: u32,
    // Density control: see densify.wgsl.
    cloned: u32,
    split: u32,
    pruned: u32,
    refused: u32,
    relocated: u32,
    added: u32,
}

const HALT_INSTANCES: u32 = 1u;
const HALT_BUCKETS: u32 = 2u;
const HALT_GAUSSIANS: u32 = 4u;
const HALT_VISIBLE: u32 = 8u;

// A camera without its lens; see dapple_reference::lens for the meaning of the numbers.
struct View {
    // Rows of the world-to-camera rotation; in w the rounding error in f32 of the centre's x, y, z.
    row0: vec4f,
    row1: vec4f,
    row2: vec4f,
    // Centre in world coordinates; w unused.
    centre: vec4f,
    focal: vec2f,
    principal: vec2f,
    // Range of x/z and y/z in which the projection's Jacobian is evaluated.
    jacobian_min: vec2f,
    jacobian_max: vec2f,
    // Pixels.
    size: vec2u,
    tiles: vec2u,
    // Pixels, and whole SSIM windows, that count in the loss.
    counted_pixels: u32,
    counted_windows: u32,
    // Not 0 = a panorama. Only kernels over several views read it: others are compiled for each camera model.
    is_panorama: u32,
    pad: u32,
}
