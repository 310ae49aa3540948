//! Anti-aliasing: the 3D filter of Mip-Splatting (Yu et al. 2024, arXiv:2311.16493, section 4.1): no Gaussian is finer than
//! the sampling of the photos.
//!
//! 1. A photo of focal length f samples a Gaussian at depth z at a rate of f / z. The Gaussian's centre
//!    must be in front of the near plane and inside the frame, enlarged by [`SMOOTHING_MARGIN`] on each
//!    side.
//! 2. The highest rate r over the training photos gives the filter's standard deviation
//!    `sqrt(SMOOTHING_VARIANCE) / r`. It is 0 for a Gaussian that no photo samples, because its detail
//!    is unknown.
//! 3. A Gaussian convolved with the filter has the scales `s' = sqrt(s^2 + deviation^2)` and, so that
//!    its mass is unchanged, the opacity `o prod(s / s')`.
//!
//! Engines store the deviations with the parameters, set them again if a step requests it, carry them
//! with the Gaussians, and differentiate step 3. [`bake`] applies the filter: splat files hold baked
//! splats, so that every viewer renders them alike. Reference: `dapple_reference::with_filter_3d`.
//!
//! [`SMOOTHING_MARGIN`]: crate::constants::SMOOTHING_MARGIN

use crate::constants::SMOOTHING_VARIANCE;
use dapple_scene::Splats;
use serde::{Deserialize, Serialize};

/// Numbers of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// True to set each Gaussian's 3D filter by the training views before the step. Only with
    /// [`RenderSettings::antialias`](crate::RenderSettings::antialias).
    pub refresh: bool,
}

/// Filters belong to Gaussians: [`OptimizerState::filter_3d`](crate::OptimizerState::filter_3d).
pub type State = ();

/// Returns the filter's standard deviation times the highest sampling rate.
pub fn deviation_per_interval() -> f32 {
    SMOOTHING_VARIANCE.sqrt()
}

/// Bakes filters of these standard deviations, `[N]`, world units; none if empty.
pub fn bake(splats: &mut Splats, filter_3d: &[f32]) {
    let rows = splats.scales.iter_mut().zip(&mut splats.opacities);
    for ((scales, logit), &deviation) in rows.zip(filter_3d) {
        // Non-finite deviations change nothing either.
        if deviation > 0.0 {
            let (fused, opacity) =
                with_filter_3d(scales.map(f64::from), (*logit).into(), deviation.into());
            *scales = fused.map(|v| v as f32);
            *logit = opacity as f32;
        }
    }
}

/// Computes step 3 for logarithms of scales and a logit.
pub fn with_filter_3d(log_scales: [f64; 3], logit: f64, deviation: f64) -> ([f64; 3], f64) {
    let mut log_share = 0.0;
    let scales = log_scales.map(|log_scale| {
        // From the larger of the two, so that nothing overflows.
        let wider = log_scale.max(deviation.ln());
        let part = |log: f64| (2.0 * (log - wider)).exp();
        let fused = wider + 0.5 * (part(log_scale) + part(deviation.ln())).ln();
        log_share += log_scale - fused;
        fused
    });
    // logit(o c) = ln(c / (1/o - c)), and 1/o - c = e^-logit + (1 - c).
    let missing = -log_share.exp_m1();
    let log_rest = if logit < 0.0 {
        (missing * logit.exp()).ln_1p() - logit
    } else {
        ((-logit).exp() + missing).max(f64::MIN_POSITIVE).ln()
    };
    (scales, log_share - log_rest)
}
