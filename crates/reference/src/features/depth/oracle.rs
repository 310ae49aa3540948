//! `depth_loss`: difference between blended and known depths, see [`dapple_engine::features::depth`].
//!
//! 1. `residual = D / t - alpha = sum_i w_i (z_i / t - 1)`.
//! 2. `L = sum_k c_k |residual_k|`, so that `dL/dD = c sign / t` and `dL/dalpha = -c sign`:
//!    Gaussians at wrong depths fade, and depths move towards t.

use crate::oracle::Image;
use dapple_engine::DepthSample;

/// Result of [`depth_loss`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DepthLoss {
    /// Loss, `sum c_k |D / t_k - alpha|`.
    pub value: f64,
    /// Derivative by the blended depth, `[height, width]`.
    pub by_depth: Vec<f64>,
    /// Derivative by alpha, `[height, width]`.
    pub by_alpha: Vec<f64>,
}

/// Returns the loss of an image against samples of known depth, times `weight`.
pub fn depth_loss(image: &Image, samples: &[DepthSample], weight: f64) -> DepthLoss {
    let mut out = DepthLoss {
        value: 0.0,
        by_depth: vec![0.0; image.depth.len()],
        by_alpha: vec![0.0; image.alpha.len()],
    };
    for sample in samples {
        let pixel = sample.pixel as usize;
        let inverse = f64::from(sample.inverse_depth);
        let residual = image.depth[pixel] * inverse - image.alpha[pixel];
        let share = weight * f64::from(sample.weight);
        out.value += share * residual.abs();
        if residual != 0.0 {
            out.by_depth[pixel] += share * residual.signum() * inverse;
            out.by_alpha[pixel] -= share * residual.signum();
        }
    }
    out
}
