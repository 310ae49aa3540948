// Shared by the kernels of `loss`: the weights of its terms, and the SSIM window along one axis.

const SSIM_RADIUS: u32 = 5u;
// A tile and the pixels around it that the windows of its pixels cover.
const HALO: u32 = TILE_SIZE + 2u * SSIM_RADIUS;
// Subtracted from render and photo before squaring: variances do not change, and products of
// numbers near zero lose less to rounding.
const SHIFT: f32 = 0.5;

// Returns the weights of a pixel's absolute difference (x) and of a window's 1 - SSIM (y) in the
// loss: means over the pixels and windows that count, three channels each. Without windows L1 has
// weight 1.
fn loss_weights(counted_pixels: u32, counted_windows: u32) -> vec2f {
    let ssim = select(step.ssim_weight, 0.0, counted_windows == 0u);
    let counts = vec2f(max(vec2u(counted_pixels, counted_windows), vec2u(1u)));
    return vec2f(1.0 - ssim, ssim) / (3.0 * counts);
}

// Neighbouring outputs.
struct Two {
    a: vec4f,
    b: vec4f,
}

struct Four {
    a: vec4f,
    b: vec4f,
    c: vec4f,
    d: vec4f,
}

// Computes neighbouring outputs from all inputs in their reach, so that each input is read once for
// all of them. Written out: every index is constant, and `v` can stay in registers.
fn filter_two(v: array<vec4f, 12>) -> Two {
    return Two(
        SSIM_TAP_5 * v[0] + SSIM_TAP_4 * v[1] + SSIM_TAP_3 * v[2] + SSIM_TAP_2 * v[3]
            + SSIM_TAP_1 * v[4] + SSIM_TAP_0 * v[5] + SSIM_TAP_1 * v[6] + SSIM_TAP_2 * v[7]
            + SSIM_TAP_3 * v[8] + SSIM_TAP_4 * v[9] + SSIM_TAP_5 * v[10],
        SSIM_TAP_5 * v[1] + SSIM_TAP_4 * v[2] + SSIM_TAP_3 * v[3] + SSIM_TAP_2 * v[4]
            + SSIM_TAP_1 * v[5] + SSIM_TAP_0 * v[6] + SSIM_TAP_1 * v[7] + SSIM_TAP_2 * v[8]
            + SSIM_TAP_3 * v[9] + SSIM_TAP_4 * v[10] + SSIM_TAP_5 * v[11],
    );
}

fn filter_four(v: array<vec4f, 14>) -> Four {
    return Four(
        SSIM_TAP_5 * v[0] + SSIM_TAP_4 * v[1] + SSIM_TAP_3 * v[2] + SSIM_TAP_2 * v[3]
            + SSIM_TAP_1 * v[4] + SSIM_TAP_0 * v[5] + SSIM_TAP_1 * v[6] + SSIM_TAP_2 * v[7]
            + SSIM_TAP_3 * v[8] + SSIM_TAP_4 * v[9] + SSIM_TAP_5 * v[10],
        SSIM_TAP_5 * v[1] + SSIM_TAP_4 * v[2] + SSIM_TAP_3 * v[3] + SSIM_TAP_2 * v[4]
            + SSIM_TAP_1 * v[5] + SSIM_TAP_0 * v[6] + SSIM_TAP_1 * v[7] + SSIM_TAP_2 * v[8]
            + SSIM_TAP_3 * v[9] + SSIM_TAP_4 * v[10] + SSIM_TAP_5 * v[11],
        SSIM_TAP_5 * v[2] + SSIM_TAP_4 * v[3] + SSIM_TAP_3 * v[4] + SSIM_TAP_2 * v[5]
            + SSIM_TAP_1 * v[6] + SSIM_TAP_0 * v[7] + SSIM_TAP_1 * v[8] + SSIM_TAP_2 * v[9]
            + SSIM_TAP_3 * v[10] + SSIM_TAP_4 * v[11] + SSIM_TAP_5 * v[12],
        SSIM_TAP_5 * v[3] + SSIM_TAP_4 * v[4] + SSIM_TAP_3 * v[5] + SSIM_TAP_2 * v[6]
            + SSIM_TAP_1 * v[7] + SSIM_TAP_0 * v[8] + SSIM_TAP_1 * v[9] + SSIM_TAP_2 * v[10]
            + SSIM_TAP_3 * v[11] + SSIM_TAP_4 * v[12] + SSIM_TAP_5 * v[13],
    );
}
