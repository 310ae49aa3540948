//! Surface of a render: the depth at which half of the light is gone, and the normal there.
//!
//! The blended, expected and median depths of [`crate::depth`] use the z of centres. The surface depth uses the extent
//! of each Gaussian along the ray (RaDe-GS, arXiv:2406.01467) as a stochastic solid (Geometry-Grounded Gaussian
//! Splatting, arXiv:2601.17835):
//!
//! 1. Profile. Around a centre at depth z, projection is linear (EWA). In pixels and depth, the covariance of a
//!    Gaussian is `[V k; k^T v]`, with V its dilated covariance on the image. At a pixel d away from the projected
//!    centre, depth has the mean `z + x z`, `x = k^T V^-1 d / z`, and the variance `s^2 = v - k^T V^-1 k`. Planes are
//!    linear in the inverse depth, so the peak is at `t* = z / (1 - x)`. x is clamped to [`MOST_SLANT`], s to
//!    [`LEAST_DEVIATION`] z and z.
//! 2. Transmittance. With `G(t) = alpha exp(-(t - t*)^2 / 2 s^2)`, a Gaussian transmits `sqrt(1 - G)` up to t*, and
//!    `(1 - alpha) / sqrt(1 - G)` behind t*. Behind the whole Gaussian that is `1 - alpha`, as in the image.
//! 3. Depth. The Gaussians that a pixel blends are multiplied, so that Gaussians may overlap in depth. The surface
//!    depth is the root t of `T(t) = 1/2`. It is 0 if the pixel transmits more than a half, or if less than a half
//!    arrives at the camera.
//! 4. Normal. The normal of a Gaussian is that of the plane of highest density through its centre p in camera
//!    coordinates, `-Sigma^-1 p`, which faces the camera. The surface normal is the mean of these with the weights
//!    `-d ln T_i / dt` at the surface depth, normalised. It is 0 where the depth is 0.
//!
//! For a panorama, depth is the distance from the centre, and k is its covariance with the pixel.
//!
//! Nothing here is differentiated. Reference: `dapple_reference::surface`.

/// Largest relative distance of a peak from the depth of the centre: x in step 1.
pub const MOST_SLANT: f32 = 0.5;

/// Minimum standard deviation of a Gaussian along a ray, as a fraction of its depth.
pub const LEAST_DEVIATION: f32 = 1e-5;

/// Distance from a peak, in standard deviations, beyond which a Gaussian transmits all or `1 - alpha` in `f32`.
pub const REACH: f32 = 6.0;

/// Surface of a rendered view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SurfaceImage {
    /// Surface depth, world units along +z, 0 where there is none, `[height, width]`.
    pub depth: Vec<f32>,
    /// Unit normals in camera coordinates (x right, y down, z forward) that face the camera, zero where there is no
    /// depth, `[height, width, 3]`.
    pub normal: Vec<[f32; 3]>,
}
