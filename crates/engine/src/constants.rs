//! Constants that all engines and the reference share.
//!
//! The values are those of 3D Gaussian Splatting (Kerbl et al. 2023) and gsplat (Ye et al. 2025), so that
//! splats from other trainers render alike.

/// Edge of a square tile, pixels.
pub const TILE_SIZE: u32 = 16;

/// Minimum alpha: contributions below one 8-bit step are skipped.
pub const ALPHA_MIN: f32 = 1.0 / 255.0;

/// Maximum alpha: larger values are clamped, so that transmittance never reaches zero and can be a divisor.
pub const ALPHA_MAX: f32 = 0.999;

/// Minimum transmittance of a pixel. A Gaussian that would bring the transmittance below this value is not
/// blended, and the pixel is finished. At 1e-4, the Gaussians behind change an 8-bit pixel by less than 0.03
/// steps.
pub const TRANSMITTANCE_MIN: f32 = 1e-4;

/// Added to the diagonal of the projected covariance, pixels squared: a Gaussian is never thinner
/// than a pixel's reconstruction filter (EWA splatting, Zwicker et al. 2001).
pub const DILATION: f32 = 0.3;

/// Dilation of anti-aliased renders: the variance of the 2D Mip filter, pixels squared, from Mip-Splatting
/// (Yu et al. 2024, arXiv:2311.16493). It is about a pixel's box. At the training resolution, this value and
/// [`SMOOTHING_VARIANCE`] add up to [`DILATION`].
pub const MIP_DILATION: f32 = 0.1;

/// Variance of the 3D filter of Mip-Splatting, in squares of the smallest sampling interval.
pub const SMOOTHING_VARIANCE: f32 = 0.2;

/// Margin around a photo, as a fraction of its width and height. A photo samples Gaussians with a centre
/// inside the photo or inside this margin (code of Mip-Splatting).
pub const SMOOTHING_MARGIN: f32 = 0.15;

/// Default near plane, world units along +z: Gaussians with a nearer centre are culled. Training computes
/// the near plane from the scene's extent. Directly in front of a camera and off its axis, a Gaussian's
/// linearised projection covers the whole image with fog.
pub const NEAR: f32 = 0.01;

/// Margin for the projection's Jacobian, as a fraction of the half field of view outside the image. Other
/// implementations have the same limit. Further out, the linearisation is meaningless.
pub const JACOBIAN_MARGIN: f32 = 0.3;

/// Steps between two checks of an engine for non-finite parameters: [`crate::StepReport::not_finite`].
/// Reading the parameters once costs a sixth of the traffic of `update`, so the check costs 0.1 % of a step.
/// A run with non-finite parameters is detected within 50 steps.
pub const FINITE_EVERY: u32 = 50;

/// Weights of encoded red, green and blue in the luminance (Rec. 601 luma), the third axis of a bilateral
/// grid.
pub const LUMINANCE: [f32; 3] = [0.299, 0.587, 0.114];

/// Window width of the SSIM filter, pixels (Wang et al. 2004).
pub const SSIM_WINDOW: usize = 11;
/// Standard deviation of the SSIM filter, pixels; see [`SSIM_WINDOW`].
pub const SSIM_SIGMA: f64 = 1.5;
/// First stabiliser of SSIM for values in 0..1, `(0.01)^2`.
pub const SSIM_C1: f64 = 0.0001;
/// Second stabiliser of SSIM for values in 0..1, `(0.03)^2`.
pub const SSIM_C2: f64 = 0.0009;

/// Returns the weights of SSIM's window along one axis. Their sum is 1, and the window is their outer
/// product.
pub fn ssim_window() -> [f64; SSIM_WINDOW] {
    let centre = (SSIM_WINDOW / 2) as f64;
    let weights: [f64; SSIM_WINDOW] = std::array::from_fn(|i| {
        let d = i as f64 - centre;
        (-d * d / (2.0 * SSIM_SIGMA * SSIM_SIGMA)).exp()
    });
    let sum: f64 = weights.iter().sum();
    weights.map(|w| w / sum)
}
