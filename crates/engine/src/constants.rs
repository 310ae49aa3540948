//! Numbers that every engine and the reference share.
//!
//! They are the field's: 3D Gaussian Splatting (Kerbl et al. 2023) and gsplat (Ye et al. 2025),
//! so that splats trained elsewhere look the same here.

/// Edge of a square tile, pixels.
pub const TILE_SIZE: u32 = 16;

/// Contributions below one 8-bit step are skipped.
pub const ALPHA_MIN: f32 = 1.0 / 255.0;

/// Alpha is clamped here, so that transmittance never reaches zero and can be divided by.
pub const ALPHA_MAX: f32 = 0.999;

/// A pixel is finished before a Gaussian would bring its transmittance below this; that Gaussian
/// is not blended. At 1e-4 what is behind changes an 8-bit pixel by less than 0.03 steps.
pub const TRANSMITTANCE_MIN: f32 = 1e-4;

/// Added to the diagonal of the projected covariance, pixels squared: a Gaussian is never thinner
/// than a pixel's reconstruction filter (EWA splatting, Zwicker et al. 2001).
pub const DILATION: f32 = 0.3;

/// The dilation of renders that are anti-aliased: the variance of the 2D Mip filter, pixels squared,
/// after Mip-Splatting (Yu et al. 2024, arXiv:2311.16493): about a pixel's box. At the resolution that
/// was trained on it makes [`DILATION`] with [`SMOOTHING_VARIANCE`].
pub const MIP_DILATION: f32 = 0.1;

/// Variance of the 3D smoothing filter, in squares of the finest sampling interval (the same paper).
pub const SMOOTHING_VARIANCE: f32 = 0.2;

/// A photo samples a Gaussian whose centre lies at most this fraction of its width and height outside
/// (the same paper's code).
pub const SMOOTHING_MARGIN: f32 = 0.15;

/// Where nothing else is known, Gaussians whose centre is nearer than this are culled, world units
/// along +z. Training chooses it by the scene's extent: right before a camera, and off its axis, a
/// Gaussian's linearised projection covers the whole image with fog.
pub const NEAR: f32 = 0.01;

/// The projection's Jacobian is evaluated at most this fraction of the half field of view outside
/// the image (as all implementations do): further out the linearisation is meaningless.
pub const JACOBIAN_MARGIN: f32 = 0.3;

/// Every so many steps an engine looks whether all parameters are finite: [`crate::StepReport::not_finite`].
/// Reading them once costs a sixth of what `update` moves in a step, so this is 0.1 % of a step, and a run
/// that goes wrong is seen within half of a hundred steps.
pub const FINITE_EVERY: u32 = 50;

/// Luminance of red, green and blue as they are encoded (Rec. 601 luma): the third axis of a photo's
/// appearance.
pub const LUMINANCE: [f32; 3] = [0.299, 0.587, 0.114];

/// Window and standard deviation of the SSIM filter, pixels (Wang et al. 2004).
pub const SSIM_WINDOW: usize = 11;
/// See [`SSIM_WINDOW`].
pub const SSIM_SIGMA: f64 = 1.5;
/// SSIM's stabilisers for values in 0..1: `(0.01)^2`, `(0.03)^2`.
pub const SSIM_C1: f64 = 0.0001;
/// See [`SSIM_C1`].
pub const SSIM_C2: f64 = 0.0009;

/// The weights of SSIM's window along one axis; they sum to 1, and the window is their outer product.
pub fn ssim_window() -> [f64; SSIM_WINDOW] {
    let centre = (SSIM_WINDOW / 2) as f64;
    let weights: [f64; SSIM_WINDOW] = std::array::from_fn(|i| {
        let d = i as f64 - centre;
        (-d * d / (2.0 * SSIM_SIGMA * SSIM_SIGMA)).exp()
    });
    let sum: f64 = weights.iter().sum();
    weights.map(|w| w / sum)
}
