//! Anti-aliasing of Mip-Splatting (Yu et al. 2024, arXiv:2311.16493).
//!
//! 1. [`deviation`]: the standard deviation of a Gaussian's 3D filter, from the photos that see it:
//!    see [`dapple_engine::filter_3d`].
//! 2. [`with_filter_3d`]: a Gaussian convolved with its 3D filter, a reparametrisation before `project`.
//!    [`with_filter_3d_backward`] is its backward pass, [`with_filter_3d_gradients`] the backward pass of the
//!    whole render.
//! 3. The 2D Mip filter is part of [`crate::oracle::project`]. The covariance on the image V is dilated by d,
//!    and the opacity multiplied by `sqrt(det V / det(V + d I))`. A Gaussian thinner than a pixel thus
//!    covers a pixel more faintly. `compensation_backward` is its derivative: with rho for the root,
//!    `d rho = rho/2 (tr(V^-1 dV) - tr((V + d I)^-1 dV))`.
//!
//! The root of det V is not smooth at det V = 0. No floor is needed there, because the opacity is 0
//! too, and a Gaussian below `ALPHA_MIN` is absent. So rho is at least 1/255 wherever there is a
//! derivative.

use crate::oracle::gradients_of_gaussians;
use crate::oracle::lens::PosedLens;
use crate::oracle::project::{Footprint, Gaussian, sigmoid};
use dapple_engine::constants::{SMOOTHING_MARGIN, SMOOTHING_VARIANCE};
use dapple_engine::{Gradients, RenderSettings, filter_3d};
use dapple_scene::{Camera, Result};
use glam::{DMat2, DVec2, DVec3};

/// Returns the standard deviation of the 3D filter of a Gaussian at `mean`, for photos of these
/// cameras with this near plane. In world units; 0 if no photo sees it.
///
/// # Errors
/// See [`crate::oracle::render`].
pub fn deviation(mean: DVec3, cameras: &[Camera], near: f32) -> Result<f64> {
    let mut rate: f64 = 0.0;
    for camera in cameras {
        let eye = PosedLens::new(camera)?;
        let point = eye.to_camera(mean);
        let depth = eye.lens.depth(point);
        if point.is_finite() && depth >= f64::from(near) && depth > 0.0 {
            let size = DVec2::new(camera.width.into(), camera.height.into());
            let place = eye.lens.project(point).centre / size;
            let margin = f64::from(SMOOTHING_MARGIN);
            if place.min_element() >= -margin && place.max_element() <= 1.0 + margin {
                rate = rate.max(camera.fx.max(camera.fy) / depth);
            }
        }
    }
    let deviation = f64::from(SMOOTHING_VARIANCE).sqrt() / rate;
    Ok(if rate > 0.0 { deviation } else { 0.0 })
}

/// Convolves a Gaussian with a 3D filter of this standard deviation; 0 changes nothing.
pub fn with_filter_3d(gaussian: &Gaussian, deviation: f64) -> Gaussian {
    let mut fused = gaussian.clone();
    if deviation > 0.0 {
        (fused.scale, fused.opacity) =
            filter_3d::with_filter_3d(gaussian.scale, gaussian.opacity, deviation);
    }
    fused
}

/// Converts derivatives by [`with_filter_3d`]'s scales and logit to those by the Gaussian's own.
pub fn with_filter_3d_backward(
    gaussian: &Gaussian,
    deviation: f64,
    scale: [f64; 3],
    opacity: f64,
) -> ([f64; 3], f64) {
    let fused = with_filter_3d(gaussian, deviation);
    // From ln o' = ln o + sum of ln(s / s'). 1 - o is the sigmoid of the negative logit.
    let by_log_opacity = opacity / sigmoid(-fused.opacity);
    // d ln s' / d ln s = (s / s')^2.
    let share = |k: usize| (2.0 * (gaussian.scale[k] - fused.scale[k])).exp();
    let scale = |k: usize| share(k) * scale[k] + (1.0 - share(k)) * by_log_opacity;
    (
        [0, 1, 2].map(scale),
        by_log_opacity * sigmoid(-gaussian.opacity),
    )
}

/// Returns [`crate::oracle::gradients_of_gaussians`] for Gaussians with 3D filters of these standard
/// deviations.
///
/// # Errors
/// See [`crate::oracle::gradients`].
pub fn with_filter_3d_gradients(
    gaussians: &[Gaussian],
    deviations: &[f64],
    sh_rest_stride: usize,
    camera: &Camera,
    settings: &RenderSettings,
    (dl_drgb, dl_dalpha): (&[f64], Option<&[f64]>),
) -> Result<Gradients<f64>> {
    let pairs = || gaussians.iter().zip(deviations).enumerate();
    let fused: Vec<Gaussian> = pairs().map(|(_, (g, &d))| with_filter_3d(g, d)).collect();
    let mut out =
        gradients_of_gaussians(&fused, sh_rest_stride, camera, settings, dl_drgb, dl_dalpha)?;
    for (i, (gaussian, &deviation)) in pairs() {
        // Absent Gaussians have no gradient, and may have no finite logit.
        if out.scales[i] != [0.0; 3] || out.opacities[i] != 0.0 {
            (out.scales[i], out.opacities[i]) =
                with_filter_3d_backward(gaussian, deviation, out.scales[i], out.opacities[i]);
        }
    }
    Ok(out)
}

impl Footprint {
    /// Returns the factor of the opacity by the 2D Mip filter, or 1 without the filter.
    pub(crate) fn compensation(&self, settings: &RenderSettings) -> f64 {
        if settings.antialias {
            (self.bare_determinant / self.covariance.determinant()).sqrt()
        } else {
            1.0
        }
    }

    /// Returns the derivative of the opacity's logarithm by the covariance, through
    /// [`Self::compensation`].
    pub(crate) fn compensation_backward(&self, settings: &RenderSettings) -> DMat2 {
        if !settings.antialias {
            return DMat2::ZERO;
        }
        let dilation = DMat2::from_diagonal(DVec2::splat(settings.dilation().into()));
        let [a, b] = (self.covariance - dilation).to_cols_array_2d();
        let adjugate = DMat2::from_cols(DVec2::new(b[1], -a[1]), DVec2::new(-b[0], a[0]));
        0.5 * (adjugate * (1.0 / self.bare_determinant) - self.covariance.inverse())
    }
}
